"""Label vectors from a text encoder: a tiny one that is made for the test, without network access."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from semco.config import LabelsConfig
from semco.errors import UserError
from semco.labels import label_source
from semco.labels.encoder import EncoderSource, TextEncoder, readable_name

transformers = pytest.importorskip("transformers")
import torch  # noqa: E402 (only with the extra)
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors  # noqa: E402

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
WORDS = ["a", "photo", "of", ".", "cat", "dog", "red", "car"]
LETTERS = [*"abcdefghijklmnopqrstuvwxyz", *(f"##{c}" for c in "abcdefghijklmnopqrstuvwxyz")]
IDS = {token: i for i, token in enumerate(dict.fromkeys([*SPECIAL, *WORDS, *LETTERS]))}


def tokenizer() -> Any:
    """Return a tokenizer with word pieces for any text."""
    made = Tokenizer(models.WordPiece(IDS, unk_token="[UNK]", max_input_chars_per_word=5000))
    made.normalizer = normalizers.Lowercase()
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", IDS["[CLS]"]), ("[SEP]", IDS["[SEP]"])]
    )
    names = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token"), SPECIAL, strict=True))
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made, model_max_length=64, **names)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("encoder")
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(IDS),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=64,
        initializer_range=0.5,
    )
    transformers.BertModel(config).save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return folder


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with HF_HUB_OFFLINE=1, which the hub's library reads when it is imported."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)


def test_contract(folder: Path) -> None:
    names = ("cat", "red_car", "001.Dog", "x" * 1000)
    found = label_source(LabelsConfig(source="encoder", encoder=str(folder))).vectors(names)
    assert found.matrix.shape == (4, 16)
    assert found.matrix.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(found.matrix, axis=1), 1, atol=1e-5)
    assert found.terms[:3] == ("cat", "red car", "Dog")
    assert 0 < found.default_eps < 2
    assert "16-d" in found.source
    assert "eps" in found.source


def test_pooling_is_the_mean_over_real_tokens(folder: Path) -> None:
    """A short text is padded to the length of a longer one; the padding must not change its embedding."""
    alone = TextEncoder(str(folder))(["cat"])
    padded = TextEncoder(str(folder))(["cat", "a photo of a red car ."])
    np.testing.assert_allclose(alone[0], padded[0], atol=1e-5)
    model = transformers.BertModel.from_pretrained(folder).eval()
    tokens = torch.tensor([[IDS["[CLS]"], IDS["cat"], IDS["[SEP]"]]])
    with torch.no_grad():
        expected = model(tokens).last_hidden_state[0].mean(dim=0).numpy()
    np.testing.assert_allclose(alone[0], expected, atol=1e-5)


def test_prompts_are_averaged_and_the_mean_of_cifar100_is_subtracted(folder: Path) -> None:
    prompts = ("a photo of a {}.", "{}")
    found = EncoderSource(str(folder), prompts).vectors(["cat", "dog"])
    encode = TextEncoder(str(folder))
    from semco.data.class_names import CIFAR100

    def raw(name: str) -> Any:
        vectors = encode([prompt.format(name.replace("_", " ")) for prompt in prompts])
        return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).mean(axis=0)

    centre = np.mean([raw(name) for name in CIFAR100], axis=0)
    expected = raw("cat") - centre
    np.testing.assert_allclose(found.matrix[0], expected / np.linalg.norm(expected), atol=1e-4)


def test_names_with_equal_vectors_get_a_note(folder: Path) -> None:
    found = EncoderSource(str(folder)).vectors(["cat", "Cat", "dog"])
    assert found.notes == (
        "the vectors of 'Cat' and 'cat' are equal: the semantic head cannot separate these classes.",
    )


def test_eps_depends_on_the_encoder_and_not_on_the_classes(folder: Path) -> None:
    source = EncoderSource(str(folder))
    assert source.vectors(["cat", "dog"]).default_eps == source.vectors(["bus", "bed", "bear"]).default_eps


def test_a_prompt_without_a_place_for_the_name() -> None:
    with pytest.raises(UserError, match=r"prompt 'a photo' has no place for the class name"):
        EncoderSource("x", ("a photo",))


@pytest.mark.parametrize("model", ["no-such-org/no-such-encoder", "./no/such/folder"])
def test_a_missing_model_is_a_user_error(model: str) -> None:
    with pytest.raises(UserError, match="cannot be loaded"):
        EncoderSource(model).vectors(["cat"])


def test_an_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be loaded"):
        EncoderSource(str(tmp_path)).vectors(["cat"])


def test_without_the_extra(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(UserError, match=r"pip install 'semco\[hf\]'"):
        EncoderSource(str(folder)).vectors(["cat"])


def test_readable_name() -> None:
    assert readable_name("n02085620-Chihuahua") == "Chihuahua"
    assert readable_name("aquarium_fish") == "aquarium fish"
    assert readable_name("7") == "7"
    assert readable_name("caf\udce9") == "café"
