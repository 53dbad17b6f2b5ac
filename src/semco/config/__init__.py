"""The configuration of a run: its fields, and the layers that it is put together from."""

from semco.config.datasets import DATASETS, REGISTERED_DATASETS, RegisteredDataset
from semco.config.layers import Layer, changed_fields, configure, flat_fields, layers_of, merge, merge_layers
from semco.config.safe_yaml import read_yaml
from semco.config.schema import (
    AUTO,
    AugmentConfig,
    Config,
    DataConfig,
    EvaluationConfig,
    LabelsConfig,
    MethodConfig,
    ModelConfig,
    OptimConfig,
    Section,
    TrainingConfig,
    Unit,
)

__all__ = [
    "AUTO",
    "DATASETS",
    "REGISTERED_DATASETS",
    "AugmentConfig",
    "Config",
    "DataConfig",
    "EvaluationConfig",
    "LabelsConfig",
    "Layer",
    "MethodConfig",
    "ModelConfig",
    "OptimConfig",
    "RegisteredDataset",
    "Section",
    "TrainingConfig",
    "Unit",
    "changed_fields",
    "configure",
    "flat_fields",
    "layers_of",
    "merge",
    "merge_layers",
    "read_yaml",
]
