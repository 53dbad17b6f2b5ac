"""Class vectors from a text encoder of the `transformers` library (the ``hf`` extra).

Each name is put into each prompt; the last hidden states are averaged over the attention mask, and over the
prompts. Encoders put all text into a narrow cone, so the mean of a hundred known names (CIFAR-100's) is
taken off, and the default eps is the one at which as many pairs of these names are neighbours as in the
paper's groups: a scale that depends on the encoder and the prompts, not on the classes.

Shapes: K classes, P prompts, T tokens, d embedding size.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from semco.data.class_names import CIFAR100
from semco.errors import UserError
from semco.labels.embeddings import LabelEmbeddings
from semco.labels.lookup import check_names
from semco.labels.sources import twins, unit
from semco.labels.store import unit_rows
from semco.labels.tune import eps_for_share

if TYPE_CHECKING:
    from torch import Tensor

BATCH = 64


@dataclass(frozen=True)
class EncoderSource:
    """A local folder or hub name of an encoder, and the sentences names are put into."""

    model: str
    prompts: tuple[str, ...] = ("a photo of a {}.",)

    def __post_init__(self) -> None:
        bad = [prompt for prompt in self.prompts if "{}" not in prompt]
        if bad or not self.prompts:
            raise UserError(f"prompt {''.join(bad[:1])!r} has no place for the name; write {{}} where it goes.")

    def vectors(self, names: Sequence[str]) -> LabelEmbeddings:
        check_names(names)
        encode = TextEncoder(self.model)
        reference = self._raw(encode, CIFAR100)
        centre = reference.mean(axis=0, keepdims=True)
        eps = eps_for_share(unit_rows(reference - centre))
        matrix = unit(self._raw(encode, names) - centre, names, self.model)
        return LabelEmbeddings(
            names=tuple(names),
            matrix=matrix,
            terms=tuple(map(readable, names)),
            routes=("text encoder",) * len(names),
            source=f"text encoder {self.model} ({matrix.shape[1]}-d); eps {eps:.3f}"
            " for the paper's share of neighbours among CIFAR-100's names",
            default_eps=eps,
            notes=twins(names, matrix),
        )

    def _raw(self, encode: TextEncoder, names: Sequence[str]) -> NDArray[np.float32]:
        """(K, d) mean over the prompts of unit vectors."""
        texts = [prompt.replace("{}", readable(name)) for name in names for prompt in self.prompts]
        vectors = unit_rows(encode(texts))  # (K * P, d)
        mean: NDArray[np.float32] = vectors.reshape(len(names), len(self.prompts), -1).mean(axis=1)
        return mean


def readable(name: str) -> str:
    """A class name as a person would write it: ``001.Laysan_Albatross`` -> ``Laysan Albatross``."""
    words = re.sub(r"^(n\d{8}|\d+)[\s._-]+(?=\D)", "", name).replace("_", " ")
    return " ".join(words.split()) or name


class TextEncoder:
    """Texts in, mean-pooled hidden states out."""

    def __init__(self, model: str) -> None:
        try:
            from transformers import AutoModel, AutoTokenizer
        except ImportError:
            raise UserError("a text encoder needs the hf extra: pip install 'semco[hf]'.") from None
        try:  # only safetensors: nothing is unpickled
            self._tokenizer: Any = AutoTokenizer.from_pretrained(model)
            self._model = _text_part(AutoModel.from_pretrained(model, use_safetensors=True)).eval()
        except (OSError, ValueError) as error:
            why = " ".join(str(error).split())[:200]
            raise UserError(
                f"the text encoder {model!r} cannot be loaded ({why}); give the folder of a transformers"
                " model, or the name of one on the hub while online."
            ) from None
        if self._tokenizer.pad_token is None:
            self._tokenizer.pad_token = self._tokenizer.eos_token

    def __call__(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(len(texts), d)"""
        import torch

        with torch.inference_mode():
            parts = [self._pooled(list(texts[i : i + BATCH])) for i in range(0, len(texts), BATCH)]
            pooled: NDArray[np.float32] = torch.cat(parts).float().cpu().numpy()
        return pooled

    def _pooled(self, texts: list[str]) -> Tensor:
        """(N, d) mean over the tokens that are there."""
        tokens = self._tokenizer(texts, padding=True, truncation=True, return_tensors="pt")
        hidden: Tensor = self._model(**tokens).last_hidden_state  # (N, T, d)
        mask = tokens["attention_mask"].unsqueeze(-1).to(hidden.dtype)  # (N, T, 1)
        pooled: Tensor = (hidden * mask).sum(dim=1) / mask.sum(dim=1).clamp(min=1)
        return pooled


def _text_part(model: Any) -> Any:
    """The encoder of an encoder-decoder, the text tower of an image-text model, else the model."""
    if getattr(model.config, "is_encoder_decoder", False):
        return model.get_encoder()
    return getattr(model, "text_model", model)
