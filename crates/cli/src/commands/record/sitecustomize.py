"""Runs in each Python process of a program that `advisor record` runs, and waits for PyTorch."""

import os
import sys


class TorchFinder:
    """Finds PyTorch like everyone else, and is told when it is imported."""

    def find_spec(self, name, path=None, target=None):
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        import importlib.util

        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            load_and_watch(spec.loader)
        return spec


def load_and_watch(loader):
    """Makes a loader of PyTorch call us once it is done."""
    execute = loader.exec_module

    def exec_module(module):
        del loader.exec_module
        execute(module)
        watch_training()

    loader.exec_module = exec_module


def watch_training():
    """Watches for training steps. An error must not reach the program."""
    sys.path.append(FOLDER)
    try:
        import _advisor_training_loop

        _advisor_training_loop.watch()
    except Exception as error:
        sys.stderr.write(f"warning: advisor record: {type(error).__name__}: {error}\n")
    finally:
        sys.path.remove(FOLDER)


def run_hidden_sitecustomize():
    """Runs the sitecustomize of the user or the system, which this one hides."""
    ours = sys.modules.pop("sitecustomize")
    try:
        import sitecustomize  # noqa: F401
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
        sys.modules["sitecustomize"] = ours


FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [path for path in sys.path if path != FOLDER]
if "torch" in sys.modules:
    watch_training()
else:
    sys.meta_path.insert(0, TorchFinder())
run_hidden_sitecustomize()
