"""The kernels of the `kernels` suite: functions that a GPU spends moving memory, by family."""

from bench.kernels import (
    indexing,
    layouts,
    losses,
    norms,
    pointwise,
    reductions,
    rows,
    spatial,
    updates,
)
from bench.kernels.case import Kernel

FAMILIES = (norms, rows, losses, pointwise, indexing, spatial, reductions, layouts, updates)
KERNELS: dict[str, Kernel] = {
    kernel.name: kernel for family in FAMILIES for kernel in family.KERNELS
}
