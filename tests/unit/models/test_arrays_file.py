"""A model's arrays as one file."""

from pathlib import Path

import numpy as np
import pytest

from openprior.models.arrays_file import write_arrays


def test_numpy_reads_what_was_written_and_the_bytes_are_the_same_each_time(tmp_path: Path) -> None:
    arrays = {
        "weights": np.linspace(0, 1, 1000),
        "codes": np.arange(12, dtype=np.uint16).reshape(3, 4)[:, ::2],
        "total": np.array(3.5),
        "none": np.empty((0, 2), np.int32),
    }
    for name in ("first.npz", "second.npz"):
        write_arrays(tmp_path / name, arrays)
    assert (tmp_path / "first.npz").read_bytes() == (tmp_path / "second.npz").read_bytes()
    with np.load(tmp_path / "first.npz", allow_pickle=False) as read:
        assert set(read) == set(arrays)
        for name, array in arrays.items():
            assert read[name].dtype == array.dtype
            np.testing.assert_array_equal(read[name], array)


def test_objects_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="allow_pickle"):
        write_arrays(tmp_path / "arrays.npz", {"objects": np.array([{}], dtype=object)})
