"""A label source that gives the class "none of these" a vector of its own instead of looking its name up.

Shapes: K classes, d embedding size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from semco.data.names import is_none_of_these
from semco.labels.embeddings import LabelEmbeddings, LabelSource
from semco.labels.matching.routes import OWN_VECTOR
from semco.labels.sources import signs


@dataclass(frozen=True)
class BesideNone:
    """Takes the vectors of all classes except "none of these" from another source."""

    source: LabelSource

    def vectors(self, names: Sequence[str]) -> LabelEmbeddings:
        """Return the label vectors of the names."""
        none = [is_none_of_these(name) for name in names]
        if not any(none) or all(none):
            return self.source.vectors(names)
        found = self.source.vectors([name for name in names if not is_none_of_these(name)])
        size = found.matrix.shape[1]
        matrix = np.stack([signs(name, size) / np.float32(np.sqrt(size)) for name in names])
        matrix[~np.asarray(none)] = found.matrix
        terms, routes = iter(found.terms), iter(found.routes)
        return replace(
            found,
            names=tuple(names),
            matrix=matrix,
            terms=tuple("" if each else next(terms) for each in none),
            routes=tuple(OWN_VECTOR if each else next(routes) for each in none),
        )
