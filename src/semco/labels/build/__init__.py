"""Build a vector store from raw GloVe, word2vec and ConceptNet files (supplement of the paper, section B).

One file per step: `fetch` downloads the official files, `readers` read them, `vocabulary` orders the terms of all
files, `retrofit` moves each set of vectors towards its neighbours in the graph, `combine` joins the sets by SVD, and
`pipeline` runs the steps and writes the store, as one of the `presets` says.
"""

from __future__ import annotations

from semco.labels.build.pipeline import build_store
from semco.labels.build.presets import PRESETS, build_preset
from semco.labels.build.settings import RELATIONS, BuildSettings

__all__ = ["PRESETS", "RELATIONS", "BuildSettings", "build_preset", "build_store"]
