"""Kubeflow: the jobs of the training operator, kubeflow.org/v1 and before.

`kinds` has the names and defaults of each kind, `schema` the JSON Schemas, `translation` and (for
the oldest version) `v1alpha1` the way to a TrainingJob. Each names the operator's own sources.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from mlgen.dialects._builder import Builder
from mlgen.dialects._dialect import Dialect, Kind
from mlgen.dialects._kubeflow_common import Rules
from mlgen.dialects.kubeflow import schema
from mlgen.dialects.kubeflow.kinds import JAX, MXNET, OLD_XGBOOST, PADDLE, PYTORCH, TF, XGBOOST
from mlgen.dialects.kubeflow.translation import (
    write_jaxjob,
    write_mxjob,
    write_old_mxjob,
    write_old_pytorchjob,
    write_old_tfjob,
    write_paddlejob,
    write_pytorchjob,
    write_tfjob,
    write_xgboostjob,
)
from mlgen.dialects.kubeflow.v1alpha1 import MXNET_LIST, PYTORCH_LIST, TF_LIST, ListForm, write_list

_write_old_xgboostjob = partial(write_xgboostjob, rules=OLD_XGBOOST)


def _kind(rules: Rules, write: Callable[[Builder], None], **fields: Any) -> Kind:
    """Return a kind of v1, with these fields of `spec` besides those that all kinds have."""
    return Kind(schema.spec_schema(rules, **fields), write)


def _old_kind(rules: Rules, write: Callable[[Builder], None], **fields: Any) -> Kind:
    """Return a kind of v1alpha2 to v1beta2."""
    return Kind(schema.old_spec_schema(rules, **fields), write)


def _list_kind(form: ListForm, **fields: Any) -> Kind:
    """Return a kind of v1alpha1."""
    return Kind(form.spec(**fields), partial(write_list, form=form))


DIALECT = Dialect(
    groups=("xgboostjob.kubeflow.org",),
    kinds={
        ("kubeflow.org/v1", "TFJob"): _kind(TF, write_tfjob, **schema.TFJOB),
        ("kubeflow.org/v1", "PyTorchJob"): _kind(PYTORCH, write_pytorchjob, **schema.PYTORCHJOB),
        ("kubeflow.org/v1", "XGBoostJob"): _kind(XGBOOST, partial(write_xgboostjob, rules=XGBOOST)),
        ("kubeflow.org/v1", "PaddleJob"): _kind(PADDLE, write_paddlejob, **schema.PADDLEJOB),
        ("kubeflow.org/v1", "JAXJob"): _kind(JAX, write_jaxjob),
        ("kubeflow.org/v1", "MXJob"): _kind(MXNET, write_mxjob, **schema.MXJOB),
        ("kubeflow.org/v1beta2", "TFJob"): _old_kind(TF, write_old_tfjob),
        ("kubeflow.org/v1beta1", "TFJob"): _old_kind(TF, write_old_tfjob),
        ("kubeflow.org/v1alpha2", "TFJob"): _old_kind(TF, write_old_tfjob),
        ("kubeflow.org/v1alpha1", "TFJob"): _list_kind(TF_LIST, **schema.TFJOB_LIST),
        ("kubeflow.org/v1beta2", "PyTorchJob"): _old_kind(PYTORCH, write_old_pytorchjob),
        ("kubeflow.org/v1beta1", "PyTorchJob"): _old_kind(PYTORCH, write_old_pytorchjob),
        ("kubeflow.org/v1alpha2", "PyTorchJob"): _old_kind(PYTORCH, write_old_pytorchjob),
        ("kubeflow.org/v1alpha1", "PyTorchJob"): _list_kind(PYTORCH_LIST, **schema.PYTORCHJOB_LIST),
        ("kubeflow.org/v1beta1", "MXJob"): _old_kind(
            MXNET, partial(write_old_mxjob, clean="All"), **schema.MXJOB
        ),
        ("kubeflow.org/v1alpha2", "MXJob"): _old_kind(
            MXNET, partial(write_old_mxjob, clean="Running"), **schema.MXJOB
        ),
        ("kubeflow.org/v1alpha1", "MXJob"): _list_kind(MXNET_LIST, **schema.MXJOB_LIST),
        ("xgboostjob.kubeflow.org/v1", "XGBoostJob"): _kind(OLD_XGBOOST, _write_old_xgboostjob),
        ("xgboostjob.kubeflow.org/v1alpha1", "XGBoostJob"): _kind(
            OLD_XGBOOST, _write_old_xgboostjob
        ),
    },
)
