"""Label vectors from a text encoder: of the `transformers` library (the ``hf`` extra), or the sentence encoder.

Each class name is put into each prompt; the last hidden states are averaged over the tokens, then over the prompts. The
embeddings of a text encoder lie in a narrow cone, so the mean embedding of CIFAR-100's class names is subtracted. The
default eps is the one at which the share of neighbouring pairs among these names is the same as in the paper's groups;
it depends on the encoder and the prompts, but not on the classes.

Shapes: K classes, P prompts, T tokens, d embedding size.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from semco.data.class_names import CIFAR100
from semco.errors import UserError
from semco.labels import sentences
from semco.labels.embeddings import LabelEmbeddings
from semco.labels.eps import eps_for_share
from semco.labels.matching.lookup import check_names
from semco.labels.matching.spelling import SURROGATES
from semco.labels.sources import duplicate_notes, unit_vectors
from semco.labels.store import unit_rows

if TYPE_CHECKING:
    from torch import Tensor

Encode = Callable[[Sequence[str]], NDArray[np.float32]]  # texts -> (N, d)
BATCH = 64  # texts encoded at once
SENTENCE_ENCODER = "use"  # the name of the sentence encoder (`sentences`)


@dataclass(frozen=True)
class EncoderSource:
    """Label vectors from a text encoder: its local folder or hub name, and the prompts for class names."""

    model: str
    prompts: tuple[str, ...] = ("a photo of a {}.",)

    def __post_init__(self) -> None:
        bad = [prompt for prompt in self.prompts if "{}" not in prompt]
        if bad or not self.prompts:
            raise UserError(f"prompt {''.join(bad[:1])!r} has no place for the class name; write {{}} in its place.")

    def vectors(self, names: Sequence[str]) -> LabelEmbeddings:
        """Return the label vectors of the names."""
        check_names(names)
        encode = sentences.encode if self.model == SENTENCE_ENCODER else TextEncoder(self.model)
        reference = self._embed(encode, CIFAR100)
        centre = reference.mean(axis=0, keepdims=True)
        eps = eps_for_share(unit_rows(reference - centre))
        matrix = unit_vectors(self._embed(encode, names) - centre, names, self.model)
        return LabelEmbeddings(
            names=tuple(names),
            matrix=matrix,
            terms=tuple(map(readable_name, names)),
            routes=("text encoder",) * len(names),
            source=f"text encoder {self.model} ({matrix.shape[1]}-d); eps {eps:.3f}"
            " gives the paper's share of neighbouring pairs among CIFAR-100's names",
            default_eps=eps,
            notes=duplicate_notes(names, matrix),
        )

    def _embed(self, encode: Encode, names: Sequence[str]) -> NDArray[np.float32]:
        """Return the mean (K, d) of each name's unit vectors over the prompts."""
        texts = [prompt.replace("{}", readable_name(name)) for name in names for prompt in self.prompts]
        vectors = unit_rows(encode(texts))  # (K * P, d)
        mean: NDArray[np.float32] = vectors.reshape(len(names), len(self.prompts), -1).mean(axis=1)
        return mean


def readable_name(name: str) -> str:
    """Return a class name as plain text: ``001.Laysan_Albatross`` -> ``Laysan Albatross``."""
    words = re.sub(r"^(n\d{8}|\d+)[\s._-]+(?=\D)", "", name.translate(SURROGATES)).replace("_", " ")
    return " ".join(words.split()) or name


class TextEncoder:
    """Turns texts into mean-pooled hidden states."""

    def __init__(self, model: str) -> None:
        try:
            from transformers import AutoModel, AutoTokenizer
        except ImportError:
            raise UserError("a text encoder needs the hf extra: pip install 'semco[hf]'.") from None
        try:  # safetensors only, so that nothing is unpickled
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
        """Return the embeddings (N, d) of N texts."""
        import torch

        with torch.inference_mode():
            parts = [self._pooled(list(texts[i : i + BATCH])) for i in range(0, len(texts), BATCH)]
            pooled: NDArray[np.float32] = torch.cat(parts).float().cpu().numpy()
        return pooled

    def _pooled(self, texts: list[str]) -> Tensor:
        """Return the mean (N, d) over the tokens that are not padding."""
        tokens = self._tokenizer(texts, padding=True, truncation=True, return_tensors="pt")
        hidden: Tensor = self._model(**tokens).last_hidden_state  # (N, T, d)
        mask = tokens["attention_mask"].unsqueeze(-1).to(hidden.dtype)  # (N, T, 1)
        pooled: Tensor = (hidden * mask).sum(dim=1) / mask.sum(dim=1).clamp(min=1)
        return pooled


def _text_part(model: Any) -> Any:
    """Return the encoder of an encoder-decoder, the text tower of an image-text model, or else the model."""
    if getattr(model.config, "is_encoder_decoder", False):
        return model.get_encoder()
    return getattr(model, "text_model", model)
