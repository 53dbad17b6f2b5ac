"""Class name -> term -> label vector."""

from __future__ import annotations

from pathlib import Path

from semco.config import LabelsConfig
from semco.errors import UserError
from semco.labels.embeddings import LabelEmbeddings, LabelSource

__all__ = ["LabelEmbeddings", "LabelSource", "label_source"]


def label_source(config: LabelsConfig) -> LabelSource:
    """Return the source of label vectors that a configuration names, by default the bundled store."""
    from semco.labels.sources import BesideNone

    return BesideNone(_named_source(config))


def _named_source(config: LabelsConfig) -> LabelSource:
    """Return the source; only the modules that it needs are imported, and only the text encoder needs torch."""
    if config.source == "encoder":
        from semco.labels.encoder import EncoderSource

        if config.encoder is None:
            raise UserError("labels.source = 'encoder' needs labels.encoder, the folder or hub name of a text encoder.")
        return EncoderSource(config.encoder, config.prompts)
    from semco.labels.sources import AttributeSource, MatrixSource, store_source

    if config.source == "attributes":
        return AttributeSource(_path(config), config.dim)
    if config.source == "matrix":
        return MatrixSource(_path(config))
    store = _path(config) if config.source == "store" else "plain" if config.source == "plain" else None
    return store_source(store, config.aliases, config.strict_names, config.unknown_names)


def _path(config: LabelsConfig) -> Path:
    if config.path is None:
        raise UserError(f"labels.source = {config.source!r} needs labels.path, its file or folder.")
    return config.path
