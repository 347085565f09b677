"""Functions that warn, log and print, which tells where they do."""

import contextlib
import io
import logging
import os
import sys
import warnings

from calling import OTHER, case, case_with, who

# --- Warnings -----------------------------------------------------------------------------------


@case
def warning(x):
    warnings.warn("mine")
    y = x * 2
    warnings.warn("mine", DeprecationWarning)
    return y


@case
def warning_about_the_caller(x):
    warnings.warn("mine", stacklevel=2)
    return x * 2


@case
def warning_about_the_callers_caller(x):
    warnings.warn("mine", stacklevel=3)
    return x * 2


@case
def warning_about_nobody(x):
    warnings.warn("mine", stacklevel=300)
    return x * 2


@case
def warning_that_is_an_object(x):
    warnings.warn(UserWarning("an instance"), stacklevel=1)
    return x * 2


@case
def warnings_elsewhere(x):
    OTHER["warn"]()
    y = x * 2
    OTHER["warn_here"]()
    OTHER["warn_far"]()
    return y


@case
def warnings_behind_a_break(x):
    if x.sum() > -1e9:
        warnings.warn("here", stacklevel=2)
        warnings.warn("there")
    y = x + 1
    OTHER["warn"]()
    return y, who(), sys._getframe(1).f_code.co_name


def caught(record):
    return [(str(w.message), w.lineno, os.path.basename(w.filename)) for w in record]


@case
def recorded_warnings(x):
    with warnings.catch_warnings(record=True) as record:
        warnings.simplefilter("always")
        warnings.warn("caught")
        OTHER["warn"]()
        y = x + 1
    return y, caught(record)


@case
def raised_warning(x):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            warnings.warn("raised")
        except UserWarning as error:
            return x + 1, str(error)


@case
def filter_behind_a_warning(x):
    with warnings.catch_warnings():
        x.sum().item()
        warnings.warn("a")
        y = x * 2
        warnings.simplefilter("ignore")
        warnings.warn("b")
    warnings.warn("c")
    return y


def registry():
    keys = sorted(str(key) for key in globals().get("__warningregistry__", {}) if key != "version")
    globals().pop("__warningregistry__", None)
    return keys


@case_with(registry)
def repeated_warnings(x):
    with warnings.catch_warnings(record=True) as record:
        warnings.simplefilter("default")
        for _ in range(3):
            warnings.warn("again")
            OTHER["warn"]()
        warnings.warn("again")
    return x + 1, caught(record)


@case_with(registry)
def warning_in_a_registry(x):
    known = globals().setdefault("__warningregistry__", {})
    warnings.warn_explicit("explicit", UserWarning, "file.py", 7, registry=known)
    return x * 2


# --- Logging ------------------------------------------------------------------------------------

RECORDS = []
LOG = logging.getLogger(__name__)


class Keep(logging.Handler):
    def emit(self, record):
        file = os.path.basename(record.pathname)
        RECORDS.append(
            (record.funcName, record.lineno, file, record.getMessage(), record.levelname)
        )


KEEP = Keep()
LOG.addHandler(KEEP)
LOG.setLevel(logging.DEBUG)
LOG.propagate = False


def records():
    kept = list(RECORDS)
    RECORDS.clear()
    return kept


@case_with(records)
def log_records(x):
    LOG.info("one %s", 3)
    y = x * 2
    LOG.warning("two")
    LOG.log(25, "three")
    return y


def log_for_others():
    LOG.info("in a helper")
    LOG.info("its caller", stacklevel=2)


@case_with(records)
def log_records_of_a_helper(x):
    log_for_others()
    LOG.info("the caller", stacklevel=2)
    return x * 2


@case_with(records)
def log_record_of_an_exception(x):
    try:
        1 / 0
    except ZeroDivisionError:
        LOG.exception("failed")
    LOG.error("with", stack_info=True)
    return x * 2


@case_with(records)
def level_between_records(x):
    LOG.info("a")
    LOG.setLevel(logging.ERROR)
    LOG.info("b")
    y = x * 2
    LOG.setLevel(logging.DEBUG)
    LOG.info("c")
    return y


@case_with(records)
def logger_switched_off(x):
    LOG.info("a")
    LOG.disabled = True
    LOG.info("b")
    y = x * 2
    LOG.disabled = False
    LOG.info("c")
    return y


@case_with(records)
def handler_taken_away(x):
    LOG.info("a")
    LOG.removeHandler(KEEP)
    LOG.info("b")
    y = x * 2
    LOG.addHandler(KEEP)
    LOG.info("c")
    return y


@case
def output_redirected(x):
    stream = io.StringIO()
    with contextlib.redirect_stdout(stream):
        print("inside")
        positive = x.sum().item() > 0
        print("again")
        y = x * 2
    print("outside")
    return y, stream.getvalue(), positive
