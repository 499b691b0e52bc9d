"""The filter for stored text, tables that fit, times."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convlog.cli.diff import SIGNS, shortened
from convlog.cli.text import age, fit, fit_end, gist, size, table, visible, visible_json, visible_line, when, width

DANGEROUS = {*range(0x20), 0x7F, *range(0x80, 0xA0), 0x61C, 0x200E, 0x200F, 0x2028, 0x2029} - {9, 10}
DANGEROUS |= {*range(0x202A, 0x202F), *range(0x2066, 0x206A), *range(0xD800, 0xE000)}

texts = st.text(st.characters(exclude_categories=()) | st.sampled_from([chr(code) for code in sorted(DANGEROUS)]))


@given(texts)
def test_no_character_that_acts_on_a_terminal_passes(text: str) -> None:
    assert not {ord(char) for char in visible(text)} & DANGEROUS
    assert not {ord(char) for char in visible_line(text)} & (DANGEROUS | {9, 10})


@given(st.text(st.characters(exclude_categories=["Cc", "Cf", "Zl", "Zp", "Cs"])))
def test_harmless_text_passes_unchanged(text: str) -> None:
    assert visible(text) == visible_line(text) == text


def test_what_is_hidden_is_spelled_by_its_code() -> None:
    assert visible("a\x1b[2J\x9b\u202e\ud800\t\n") == "a\\x1b[2J\\x9b\\u202e\\ud800\t\n"
    assert visible_line("a\tb\nc") == "a\\x09b\\x0ac"


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_json_means_the_same_after_escaping(text: str) -> None:
    line = visible_json(json.dumps({"text": text}, ensure_ascii=False))
    assert json.loads(line) == {"text": text}
    assert not {ord(char) for char in line} & DANGEROUS


def test_a_gist_is_one_line() -> None:
    assert gist("a\n\n  b\tc\x1b") == "a b c\\x1b"


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"])), st.integers(1, 40))
def test_a_fitted_line_is_no_wider_than_asked(text: str, columns: int) -> None:
    assert width(fit(text, columns)) <= columns


def test_wide_characters_take_two_columns() -> None:
    assert width("日本e\u0301") == 5


@given(st.lists(st.tuples(st.text("ab日", max_size=90), st.text("12", max_size=9)), min_size=1))
def test_a_table_fits_into_its_columns(rows: list[tuple[str, str]]) -> None:
    lines = table(rows, head=("name", "n"), columns=40, elastic=0, right=("n",)).split("\n")
    assert len(lines) == len(rows) + 1
    assert max(width(line) for line in lines) <= 40


def test_numbers_stand_right_under_their_head() -> None:
    assert table([("a", "7")], head=("name", "turns"), columns=80, elastic=0, right=("turns",)) == (
        "name  turns\na         7"
    )


def test_times_in_utc_end_in_z_and_others_name_their_offset() -> None:
    assert when(0, utc=True) == "1970-01-01 00:00:00Z"
    assert when(0, utc=False)[-5] in "+-"
    assert when(10**30, utc=True).endswith(" us")


@pytest.mark.parametrize(
    ("seconds", "words"), [(-5, "now"), (0, "now"), (59, "59 s"), (60, "1 min"), (7300, "2 h"), (90_000, "1 d")]
)
def test_an_age_is_told_in_its_largest_whole_unit(seconds: int, words: str) -> None:
    assert age(0, seconds * 1_000_000) == words


def test_sizes_are_told_in_binary_units() -> None:
    assert [size(0), size(1023), size(1536), size(3 << 40)] == ["0 B", "1023 B", "1.5 KiB", "3072.0 GiB"]


@given(st.text(), st.integers(1, 20))
def test_a_line_cut_at_its_beginning_fits_and_keeps_its_end(text: str, columns: int) -> None:
    cut = fit_end(text, columns)
    assert width(cut) <= columns
    assert cut == text or (cut.startswith("…") and text.endswith(cut[1:]))


@given(st.lists(st.tuples(st.sampled_from(["same", "gone", "added"]), st.text(min_size=1))), st.integers(20, 120))
def test_a_difference_is_cut_to_the_columns_there_are(found: list[tuple[str, str]], room: int) -> None:
    found = [(kind, visible(text)) for kind, text in found]
    kept = shortened(found, room)
    assert sum(width(text) + (0 if kind == "same" else SIGNS) for kind, text in kept) <= room
    assert len(kept) <= len(found)
    assert [kind for kind, _ in kept[:-1]] == [kind for kind, _ in found[: max(0, len(kept) - 1)]]
