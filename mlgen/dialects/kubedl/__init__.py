"""KubeDL: the jobs of training.kubedl.io, and their annotations.

Read from kubedl-io/kubedl at b93a2b4: apis/training/v1alpha1 for fields and defaults, controllers
and pkg/job_controller for behavior, pkg/code_sync and pkg/tensorboard for annotations. KubeDL has
no webhook; what is rejected here, KubeDL would accept but never run.
"""

from collections.abc import Callable
from typing import Any

from mlgen.dialects._builder import Builder
from mlgen.dialects._dialect import Dialect, Kind
from mlgen.dialects._kubeflow_common import Rules
from mlgen.dialects.kubedl.jobs import (
    write_elasticdljob,
    write_marsjob,
    write_pytorchjob,
    write_tfjob,
    write_xdljob,
    write_xgboostjob,
)
from mlgen.dialects.kubedl.kinds import ELASTICDL, MARS, MPI, PYTORCH, TF, XDL, XGBOOST
from mlgen.dialects.kubedl.mpi import write_mpijob
from mlgen.dialects.kubedl.schema import MARSJOB, MPIJOB, PYTORCHJOB, TFJOB, XDLJOB, spec_schema

VERSION = "training.kubedl.io/v1alpha1"


def _kind(rules: Rules, write: Callable[[Builder], None], **fields: Any) -> Kind:
    """Return a kind, with these fields of `spec` of its own."""
    return Kind(spec_schema(rules, **fields), write)


DIALECT = Dialect(
    groups=(
        "training.kubedl.io",
        "apps.kubedl.io",
        "cache.kubedl.io",
        "inference.kubedl.io",
        "model.kubedl.io",
        "notebook.kubedl.io",
        "serving.kubedl.io",
    ),
    kinds={
        (VERSION, "TFJob"): _kind(TF, write_tfjob, **TFJOB),
        (VERSION, "PyTorchJob"): _kind(PYTORCH, write_pytorchjob, **PYTORCHJOB),
        (VERSION, "XGBoostJob"): _kind(XGBOOST, write_xgboostjob),
        (VERSION, "XDLJob"): _kind(XDL, write_xdljob, **XDLJOB),
        (VERSION, "MarsJob"): _kind(MARS, write_marsjob, **MARSJOB),
        (VERSION, "MPIJob"): _kind(MPI, write_mpijob, **MPIJOB),
        (VERSION, "ElasticDLJob"): _kind(ELASTICDL, write_elasticdljob),
    },
)
