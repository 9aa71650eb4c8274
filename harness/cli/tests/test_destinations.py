"""What a command writes never takes the place of a file of the user's, nor of another one that it writes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ethos_hil.base.errors import UsageError
from ethos_hil.base.files import write_into
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.harness.cli.destinations import check_distinct, check_folder, listed_files
from ethos_hil.harness.testing.command import Run
from ethos_hil.lowering.output.export_files import MANIFEST


def test_of_what_is_in_our_folder_only_ours_is_replaced(tmp_path: Path) -> None:
    listed = ["model.pte", "listing.txt", "../outside", MANIFEST]
    document = {"schema_version": 1, "sha256": "", "versions": {}, "missing": [], "files": listed}
    (tmp_path / "outside").touch()
    look = tmp_path / "look"
    write_into(look, {"model.pte": b"old", "listing.txt": b"", MANIFEST: json.dumps(document).encode()}, ())
    (look / "notes").write_text("years of work")
    assert listed_files(look) == {*listed}
    write_into(look, {"model.pte": b"new", MANIFEST: b"{}"}, listed_files(look))
    assert {path.name for path in look.iterdir()} == {"model.pte", MANIFEST, "notes"}
    assert (look / "model.pte").read_bytes() == b"new"
    assert (tmp_path / "outside").exists()


@pytest.mark.parametrize("manifest", ['{"mine": 1}', "[]", "no JSON", "[" * 100_000, '{"files": ["thesis.txt"]}'])
def test_what_is_the_users_is_not_lost_nor_is_a_manifest_of_another_program_ours(tmp_path: Path, manifest: str) -> None:
    (tmp_path / MANIFEST).write_text(manifest)
    (tmp_path / "thesis.txt").write_text("years of work")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("nowhere")
    assert listed_files(tmp_path) == frozenset()
    for name in (MANIFEST, "folder", "link"):
        with pytest.raises(FileExistsError, match="was not written by ethos-hil"):
            write_into(tmp_path, {"model.pte": b"", name: b""}, listed_files(tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "link", MANIFEST, "thesis.txt"]


def test_no_other_file_is_written_into_the_folder_and_two_names_of_one_file_are_the_same(
    tmp_path: Path, recorded: Recorded
) -> None:
    (tmp_path / "look").mkdir()
    (tmp_path / "link").symlink_to("look")
    (tmp_path / "here").symlink_to(".")
    into = [(option, folder) for option in ("--output", "--json") for folder in ("look", "link")]
    recorded.check_refusals(
        into, lambda row: check_folder(tmp_path / row[1], {row[0]: tmp_path / "look/net.pte"}), folders=[tmp_path]
    )
    check_folder(tmp_path / "look", {"--json": Path("-"), "--output": tmp_path / "net.pte"})
    check_folder(tmp_path / "absent", {})
    for name in ("a", "./a", "look/../a", "here/a"):
        with pytest.raises(UsageError, match="--json and --outputs are the same file"):
            check_distinct({"--outputs": tmp_path / "a", "--json": tmp_path / name}, {})
        with pytest.raises(UsageError, match="--json and MODEL are the same file"):
            check_distinct({"--json": tmp_path / name}, {"MODEL": tmp_path / "a"})


def test_what_is_not_replaced_may_be_named_twice(tmp_path: Path) -> None:
    check_distinct({"--json": Path("-"), "--outputs": Path("-")}, {})
    check_distinct({"--json": Path("/dev/null"), "--outputs": Path("/dev/null"), "--output": None}, {"--inputs": None})
    (tmp_path / "link").symlink_to("net.py")  # the link is replaced, not the model
    (tmp_path / "net.py").write_text("")
    check_distinct({"--json": tmp_path / "link"}, {"MODEL": tmp_path / "net.py"})


def test_a_link_to_the_folder_stays_a_link(ethos_hil: Run, here: Path) -> None:
    (here / "real").mkdir()
    (here / "link").symlink_to("real")
    (here / "new").symlink_to("dangling")
    for name in ("link", "new"):
        assert ethos_hil("lower", "net.py:net", "--artifacts", name).status == 0
        assert (here / name).is_symlink()
        assert (here / name / "model.pte").is_file()
    assert not [path.name for path in here.iterdir() if path.name.startswith(".")], "nothing is left over"
