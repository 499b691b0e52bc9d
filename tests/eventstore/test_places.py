"""Where the store is looked for, in which order, and what is said when none is there."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from convlog.eventstore import places
from convlog.eventstore.errors import NotAStore, StoreMissing
from convlog.eventstore.places import Place


@pytest.fixture(autouse=True)
def _no_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


def test_the_option_comes_before_the_variable_the_folder_and_the_default() -> None:
    chosen = [
        places.choose("a.db", "b.db", Path("c.db"), Path("d")).path,
        places.choose(None, "b.db", Path("c.db"), Path("d")).path,
        places.choose(None, "", Path("c.db"), Path("d")).path,
        places.choose(None, None, None, Path("d")).path,
    ]
    assert chosen == [Path("a.db"), Path("b.db"), Path("c.db"), Path("d/convlog.db")]


def test_each_place_says_why_it_was_chosen() -> None:
    assert "--db" in places.choose("a", None, None, Path()).why
    assert "CONVLOG_DB" in places.choose(None, "a", None, Path()).why
    assert ".convlog" in places.choose(None, None, Path("a"), Path()).why
    assert places.choose(None, None, None, Path()).default


def test_the_nearest_folder_upwards_wins(tmp_path: Path) -> None:
    outer = places.make_folder(tmp_path)
    inside = tmp_path / "a" / "b"
    inside.mkdir(parents=True)
    assert places.find(environ={}, cwd=inside).path == outer
    inner = places.make_folder(tmp_path / "a")
    assert places.find(environ={}, cwd=inside).path == inner


def test_without_any_the_users_data_folder_is_meant(tmp_path: Path) -> None:
    place = places.find(environ={}, cwd=tmp_path)
    assert place.default
    assert place.path.name == "convlog.db"


def test_a_missing_store_names_path_reason_and_stores_nearby(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    near = places.make_folder(tmp_path / "project")
    near.touch()
    place = Place(tmp_path / "gone.db", "given by --db")
    error = places.missing(place, places.nearby(place, tmp_path))
    assert isinstance(error, StoreMissing)
    assert error.exit_code == 3
    assert f"{tmp_path}/gone.db (given by --db)" in error.message
    assert str(near) in error.hint


def test_a_missing_store_without_others_says_how_to_make_one(tmp_path: Path) -> None:
    place = Place(tmp_path / "gone.db", "given by --db")
    assert "convlog init" in places.missing(place, places.nearby(place, tmp_path)).hint


def test_a_made_folder_keeps_itself_out_of_version_control_and_from_others(tmp_path: Path) -> None:
    path = places.make_folder(tmp_path)
    assert path == tmp_path / ".convlog" / "convlog.db"
    assert (tmp_path / ".convlog" / ".gitignore").read_text().endswith("*\n")
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_making_a_folder_again_keeps_what_is_there(tmp_path: Path) -> None:
    ignore = places.make_folder(tmp_path).parent / ".gitignore"
    ignore.write_text("!keep\n")
    places.make_folder(tmp_path)
    assert ignore.read_text() == "!keep\n"


def test_a_file_in_the_folders_place_is_told(tmp_path: Path) -> None:
    (tmp_path / ".convlog").touch()
    with pytest.raises(NotAStore, match="no folder"):
        places.make_folder(tmp_path)


def test_no_folder_to_make_it_in_is_told(tmp_path: Path) -> None:
    with pytest.raises(StoreMissing, match="no folder"):
        places.make_folder(tmp_path / "gone")
