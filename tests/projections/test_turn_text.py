"""Text rules that TurnMemory stands on: bounds, filters, paths, addresses, inputs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convlog.projections.stages import secrets_v1 as secrets
from convlog.projections.stages import turn_text_v1 as text
from convlog.projections.stages import urls_v1 as urls
from convlog.projections.stages.segments_v1 import Facts

SPACES = "\t\n\v\f\r \u0085\u00a0\u1680\u2000\u200a\u2028\u2029\u202f\u205f\u3000"


class TestBounds:
    def test_every_kind_of_whitespace_becomes_one_space(self) -> None:
        assert text.collapse(f"{SPACES}a{SPACES}b{SPACES}") == "a b"

    @pytest.mark.parametrize("character", ["\x1c", "\x1f", "\u200b", "\ufeff", "\u180e"])
    def test_what_go_does_not_call_a_space_stays(self, character: str) -> None:
        assert text.collapse(f"a{character}b") == f"a{character}b"

    @pytest.mark.parametrize(
        ("given_text", "expected"),
        [
            ("a" * 256, "a" * 256),
            ("a" * 257, "a" * 253 + "..."),
            ("é" * 128, "é" * 128),
            ("é" * 129, "é" * 126 + "..."),
            ("a" * 252 + "é" + "bbb", "a" * 252 + "..."),
            ("a" * 250 + "😀" + "bbb", "a" * 250 + "..."),
        ],
    )
    def test_256_bytes_are_the_cap_with_the_mark_included(self, given_text: str, expected: str) -> None:
        assert text.bound(given_text) == expected

    @given(st.text())
    def test_a_kept_string_has_at_most_256_bytes_and_no_runs_of_space(self, given_text: str) -> None:
        kept = text.kept(given_text)
        assert len(kept.encode()) <= 256
        assert kept == text.collapse(kept)

    @given(st.text(), st.integers(min_value=0, max_value=40))
    def test_a_cut_is_the_longest_beginning_that_fits(self, given_text: str, limit: int) -> None:
        kept = text.cut(given_text, limit)
        assert given_text.startswith(kept)
        assert len(kept.encode()) <= limit
        if kept != given_text:
            assert len((kept + given_text[len(kept)]).encode()) > limit


class TestWordFilter:
    @pytest.mark.parametrize(
        "said",
        [
            *("tokenizer.py", "SECRETARY", "a/token/b", "PassWord", "passwd", "Authorization", "credentials"),
            *("apikey", "API_KEY", "api-key", "\u212aen to\u212aen", "\u017fecret"),
        ],
    )
    def test_a_word_anywhere_hits_in_any_case(self, said: str) -> None:
        assert text.is_sensitive(said)
        assert text.kept(said) == ""

    @pytest.mark.parametrize("said", ["api key", "api__key", "pass word", "tok en", "lexer.py", "key"])
    def test_other_words_stay(self, said: str) -> None:
        assert text.kept(said) == said

    def test_the_filter_sees_the_whole_string_before_the_cut(self) -> None:
        assert text.kept("a" * 300 + " secret") == ""


class TestPaths:
    @pytest.mark.parametrize(
        ("path", "workspace", "expected"),
        [
            ("/srv/app/a/b.py", "/srv/app", "a/b.py"),
            ("/srv/app/a/b.py", "/srv/app/", "a/b.py"),
            ("/srv/app", "/srv/app", "."),
            ("/srv/app/", "/srv/app", "."),
            ("/srv/app/./a//b/../c", "/srv/app", "a/c"),
            ("/srv/app/..x", "/srv/app", "..x"),
            ("/srv/app/../other", "/srv/app", "/srv/app/../other"),
            ("/srv/application/x", "/srv/app", "/srv/application/x"),
            ("/srv", "/srv/app", "/srv"),
            ("/srv/other/z", "/srv/app", "/srv/other/z"),
            ("/a/b", "/", "a/b"),
            ("a/../b", "/srv/app", "a/../b"),
            ("/srv/app/x", "", "/srv/app/x"),
            ("/srv/app/x", "srv/app", "/srv/app/x"),
            ("", "/srv/app", ""),
        ],
    )
    def test_only_absolute_paths_inside_the_workspace_are_relativised(
        self, path: str, workspace: str, expected: str
    ) -> None:
        assert text.relativise(path, workspace) == expected

    @pytest.mark.parametrize(
        ("path", "workspace", "expected"),
        [
            ("/srv/other/z.py", "/srv/app", "../other/z.py"),
            ("/srv", "/srv/app", ".."),
            ("/", "/srv/app", "../.."),
            ("a.py", "/srv/app", "a.py"),
            ("app/a.py", "app", "a.py"),
            ("b/a.py", "app", "../b/a.py"),
            ("a.py", "../up", "a.py"),
        ],
    )
    def test_version_one_says_outside_paths_from_the_workspace_too(
        self, path: str, workspace: str, expected: str
    ) -> None:
        assert text.relative_path(path, workspace) == expected

    @pytest.mark.parametrize(
        ("path", "pattern", "expected"),
        [
            *(("", "*.py", "*.py"), (".", "*.py", "*.py"), ("src", "", "src"), ("src", "x", "src :: x")),
            *(("", "", ""), (".", "", "")),
        ],
    )
    def test_place_and_pattern_are_joined(self, path: str, pattern: str, expected: str) -> None:
        assert text.join_target(path, pattern) == expected


class TestAddresses:
    @pytest.mark.parametrize(
        ("raw", "expected"),
        [
            ("https://bob:pw@docs.example.org:8443/a%20b/c?sig=1&x=2#top", "https://docs.example.org:8443/a%20b/c"),
            ("HTTPS://Docs.Example.org", "https://Docs.Example.org"),
            ("http://h/a?b?", "http://h/a"),
            ("http://h/a??", "http://h/a"),
            ("http://h/a#?", "http://h/a"),
            ("http://@h/", "http://h/"),
            ("http://[::1]:80/x", "http://[::1]:80/x"),
            ("http://münchen.de/", "http://m%C3%BCnchen.de/"),
            ("http://h/ä", "http://h/%C3%A4"),
            ("http://h/a(b)%7e", "http://h/a(b)%7e"),
            ("http://h/a b(c)%7e", "http://h/a%20b%28c%29~"),
        ],
    )
    def test_user_info_query_and_fragment_go_port_and_escapes_stay(self, raw: str, expected: str) -> None:
        assert urls.clean(raw) == urls.clean_wholly(raw) == expected

    @pytest.mark.parametrize(
        "raw",
        [
            *("", "example.org/x", "//h/x", "/x", "mailto:a@b.c", "http:x", "http://", "http:///x", "1http://h"),
            *(
                "http://h:8x/",
                "http://h/%zz",
                "http://h/#%zz",
                "http://a b/",
                "http://h\n/",
                "http://[::1/",
                "http://%41/",
            ),
            *("http://b^b@h/", ":x", "http://h/\x7f"),
        ],
    )
    def test_what_is_no_address_has_no_target(self, raw: str) -> None:
        assert urls.clean(raw) == urls.clean_wholly(raw) == ""

    def test_a_bare_question_mark_stays_in_the_source_and_goes_in_version_six(self) -> None:
        assert urls.clean("https://h/a?") == "https://h/a?"
        assert urls.clean("https://h?#x") == "https://h?"
        assert urls.clean_wholly("https://h/a?") == "https://h/a"

    def test_the_first_web_address_of_a_text_is_found(self) -> None:
        assert urls.first_web_address("Read (https://h/a?x=1), then http://i/.") == "https://h/a?x=1"
        assert urls.first_web_address("no address") == ""

    @given(st.text())
    def test_cleaning_never_fails_and_never_keeps_a_query(self, raw: str) -> None:
        cleaned = urls.clean_wholly(raw)
        assert "?" not in cleaned
        assert "#" not in cleaned
        assert urls.clean_wholly(cleaned) == cleaned


class TestSecrets:
    @pytest.mark.parametrize(
        "said",
        [
            *("tool --token=abc", "login --password hunter2", "login -password hunter2", "TOKEN=abc make", "PASSWD=x"),
            *("export API_KEY=abc", "api-key: x", "accessToken: xyz", "AWS_SECRET_ACCESS_KEY=abc", "SECRET_KEY_BASE=1"),
            *("curl -H 'Authorization: Bearer abc' h", "Authorization: secret", "Bearer abcdef12345", "passphrase:x"),
            *('{"password": "hunter2"}', '-d "{\\"password\\":\\"x\\"}"', "secret => 'x'", "db_password = 'x y'"),
            *("git clone https://bob:pw@h/x", "curl -u bob:pw h", "curl https://h/?access_token=x", "sshpass -p x ssh"),
            *("echo ghp_0123456789abcdefghij", "sk-" + "x1" * 12, "AKIAIOSFODNN7EXAMPLE"),
            *("eyJhbGciOiJI.eyJzdWIiOiIx.sig", "-----BEGIN RSA PRIVATE KEY-----\nabc"),
        ],
    )
    def test_a_word_with_a_value_and_the_shape_of_a_key_are_secrets(self, said: str) -> None:
        assert secrets.has_secret(said)
        assert secrets.WITHHELD in secrets.withhold(said)

    @pytest.mark.parametrize(
        "said",
        [
            *("src/tokenizer.py", "docs/secretariat.md", "docs/token/readme", "https://h/token/x", "cat password.txt"),
            *("grep password src/", "src/token :: x", "src/token.py:12", "token == other", "Token::new", "if (token)"),
            *("max_tokens=4096", "--max-tokens 5", "--token-file t.txt", "--password-stdin < f", "tokenizer=fast"),
            *("passwordless: true", "primary key: id", "public_key=abc", "docker run -u 1000:1000 x", "passwd bob"),
            *("git commit -m 'basic functionality'", "http://token:8080/x", "task-runner", "mask-abcdefghijklmnopqrst"),
        ],
    )
    def test_a_word_alone_is_none(self, said: str) -> None:
        assert not secrets.has_secret(said)
        assert secrets.withhold(said) == said

    def test_only_the_secret_is_withheld(self) -> None:
        assert (
            secrets.withhold('{"password": "hunter2", "a": 1}\nTOKEN=abc def\nhttps://bob:pw@h/x')
            == '{"password": [withheld], "a": 1}\nTOKEN=[withheld] def\nhttps://[withheld]@h/x'
        )

    @given(st.text(alphabet="abz=: \"'-{}\\/token@.", max_size=60))
    def test_withholding_never_fails(self, said: str) -> None:
        assert secrets.has_secret(said) == (secrets.withhold(said) != said)


class TestInputs:
    @pytest.mark.parametrize(
        "raw", ["", "{", "nonsense", "[1]", '"x"', "null", "3", '{"a":NaN}', '{"a":1e999}', "[" * 9999]
    )
    def test_what_is_no_object_has_no_fields(self, raw: str) -> None:
        assert text.fields(raw) == {}

    def test_a_half_surrogate_becomes_the_replacement_character_and_pairs_stay(self) -> None:
        assert text.fields('{"a":"x\\ud800y","\\udfff":["\\ud83d\\ude00"]}') == {"a": "x\ufffdy", "\ufffd": ["😀"]}

    @pytest.mark.parametrize(
        ("code", "expected"),
        [
            *((None, None), (0, None), (0.0, None), (0.9, None), (-0.5, None), (2, 2), (2.9, 2), (-1.5, -1)),
            *((float("nan"), None), (float("inf"), None), (True, None)),
        ],
    )
    def test_exit_codes_are_truncated_and_zero_is_none(self, code: float | None, expected: int | None) -> None:
        assert text.exit_code(Facts(exit_code=code)) == expected
