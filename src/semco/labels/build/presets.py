"""Named builds: ours, the paper's, and GloVe's own vectors.

The origin of each choice of the paper's build: (P) the paper's text, supplement B; (F) Faruqui et al. 2015, whose
algorithm it follows; (C) the code of ConceptNet 5 (Speer et al.), whose procedure it follows; (S) our own choice, where
these say nothing.

    seven relations of ConceptNet                                             (P)
    all relations have the weight 1                                           (S) the paper names no weights
    a term's own vector counts as much as all its edges together              (P, F) `retrofit`
    edges are divided by their sum                                            (F, C)
    terms of the graph alone get vectors, and no other vector is inferred     (P)
    50 iterations, which end within 0.1 % of the minimum of the objective     (P) "optimise"; the number is ours
    the mean vector is subtracted before                                      (C) "don't just clump around hypernyms"
    SVD of both sets side by side, fitted to the terms of both, to 128        (P)
    each direction is divided by the root of its singular value               (C) after Levy and Goldberg
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from semco.download import Report, no_report
from semco.errors import UserError, unknown
from semco.labels.build.pipeline import build_store
from semco.labels.build.settings import RELATIONS, BuildSettings
from semco.labels.store import VectorStore


@dataclass(frozen=True)
class Preset:
    """A build: its settings, the weights of the relations, and the kinds of files that it uses."""

    settings: BuildSettings
    relations: Mapping[str, float]
    files: tuple[str, ...] = ("glove", "word2vec", "conceptnet")


PRESETS = {
    "ours": Preset(BuildSettings(), RELATIONS),
    "paper": Preset(
        BuildSettings(iterations=50, translated_alpha=0.0, composed_alpha=0.0), dict.fromkeys(RELATIONS, 1.0)
    ),
    # Raw vectors up to a rotation: the supplement compares the paper's groups with those of raw GloVe.
    "glove": Preset(
        BuildSettings(iterations=0, translated_alpha=0.0, composed_alpha=0.0, singular_power=1.0, is_centred=False),
        RELATIONS,
        files=("glove",),
    ),
}


def build_preset(
    name: str,
    files: Mapping[str, Path | None],
    out: Path,
    relations: Mapping[str, float] | None = None,
    dim: int = 128,
    max_words: int | None = None,
    report: Report = no_report,
) -> VectorStore:
    """Build the store ``out`` as a preset says, from the files by kind; ``relations`` replaces those of the preset."""
    if name not in PRESETS:
        raise unknown("preset", name, PRESETS)
    preset = PRESETS[name]
    unused = [kind for kind, path in files.items() if path is not None and kind not in preset.files]
    if unused:
        raise UserError(f"the preset {name} uses no {unused[0]} file; leave it out, or choose another preset.")
    if "conceptnet" in preset.files and files.get("conceptnet") is None:
        raise UserError("a build needs a ConceptNet file; only the preset glove does without it.")
    return build_store(
        files.get("glove"),
        files.get("word2vec"),
        files.get("conceptnet"),
        out,
        relations or preset.relations,
        replace(preset.settings, dim=dim),
        max_words,
        report,
    )
