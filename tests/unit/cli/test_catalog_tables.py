"""Tables in a pipe, and the places of remarks."""

from pathlib import Path

from wainwright.catalogue.remarks import warning
from wainwright.cli.places import problems
from wainwright.cli.tables import aligned


def test_columns_stand_below_each_other_and_numbers_end_at_the_right() -> None:
    assert aligned([("NAME", "PRICE"), ("a", "0.1"), ("long-name", "12")], numbers=1) == [
        "NAME       PRICE",
        "a            0.1",
        "long-name     12",
    ]


def test_no_rows_are_no_lines() -> None:
    assert aligned([]) == []


def test_the_object_of_that_name_is_found_in_its_file(tmp_path: Path) -> None:
    file = tmp_path / "two.yaml"
    one = "apiVersion: karpenter.sh/v1alpha1\nkind: NodeOverlay\nmetadata: {name: %s}\nspec: {}\n"
    file.write_text(f"{one % 'a'}---\n{one % 'b'}")
    remarks = [warning("NodeOverlay", "b", ("spec",), "void"), warning("NodeOverlay", "c", (), "?")]
    placed, homeless = problems(remarks, [str(file), "-"])
    assert (placed.file, placed.line, placed.path) == (str(file), 9, "spec")
    assert (homeless.file, homeless.line) == ("NodeOverlay c", None)


def test_the_same_remark_is_shown_once() -> None:
    remark = warning("Cloud", "", (), "said twice")
    assert len(problems([remark, remark], [])) == 1
