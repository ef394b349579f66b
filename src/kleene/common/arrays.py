"""Arrays of numbers, as all layers name them."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

NO_WINDOW = int(np.iinfo(np.int64).max)
"""The window of a query without one: everything fits into it."""
