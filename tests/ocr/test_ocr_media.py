import os
import socket

import pytest
from drawn_pages import draw_receipt, encoded
from PIL import Image

from headrace.documents.errors import EmptyFile, UnreadableSource, UnsupportedMediaType
from headrace.ocr import media


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("JPEG", media.JPEG),
        ("PNG", media.PNG),
        ("WEBP", media.WEBP),
        ("GIF", media.GIF),
        ("BMP", media.BMP),
        ("TIFF", media.TIFF),
        ("PDF", media.PDF),
        ("AVIF", media.AVIF),
    ],
)
def test_the_kind_of_a_file_is_told_by_its_content(kind: str, expected: str) -> None:
    assert media.media_type(encoded(draw_receipt(), kind)[: media.HEAD_BYTES]) == expected


@pytest.mark.parametrize(
    "head",
    [
        b"PK\x03\x04" + bytes(40),
        b"BM is how a letter may begin, and it is no bitmap",
        b"\0\0\0\x18ftypmp42\0\0\0\0mp42isom",
        b"RIFF\0\0\0\0WAVEfmt ",
        b"\0" * 100,
        b"\xff\xd8",
    ],
)
def test_what_is_no_document_is_unsupported_and_the_answer_says_what_is_supported(head: bytes) -> None:
    with pytest.raises(UnsupportedMediaType, match=r"readable are .*jpeg.*pdf"):
        media.require_media_type(head)


def test_a_pdf_with_rubbish_before_its_mark_is_a_pdf() -> None:
    assert media.media_type(b"\r\n\0junk" * 20 + b"%PDF-1.4") == media.PDF


def test_a_heif_file_that_holds_avif_is_avif() -> None:
    assert media.media_type(b"\0\0\0\x1cftypmif1\0\0\0\0mif1avifmiaf") == media.AVIF
    assert media.media_type(b"\0\0\0\x1cftypmif1\0\0\0\0mif1heicmiaf") == media.HEIC


def test_an_empty_file_is_named_as_such(tmp_path) -> None:
    (tmp_path / "a.jpg").touch()
    with pytest.raises(EmptyFile):
        media.open_source(str(tmp_path / "a.jpg"))


def _folder(path: str) -> None:
    os.mkdir(path)


def _dangling(path: str) -> None:
    os.symlink(path + ".gone", path)


def _loop(path: str) -> None:
    os.symlink(path, path)


def _pipe(path: str) -> None:
    os.mkfifo(path)


def _socket(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)


def _absent(path: str) -> None:
    assert not os.path.exists(path)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("make", [_folder, _dangling, _loop, _pipe, _socket, _absent])
def test_what_is_no_regular_file_is_refused_without_waiting_for_it(tmp_path, make) -> None:
    path = str(tmp_path / "a.pdf")
    make(path)
    with pytest.raises(UnreadableSource) as caught:
        media.open_source(path)
    assert caught.value.stage == "read"


def test_a_name_with_a_nul_is_refused() -> None:
    with pytest.raises(UnreadableSource):
        media.open_source(b"a\0b.jpg")


@pytest.mark.parametrize("name", [b"caf\xe9 \x96.jpg", "Zu\u0308rich \u202e.jpg".encode(), b"-rf\n\t.jpg", b"x" * 255])
def test_names_that_are_not_text_open_like_any_other(tmp_path, name: bytes) -> None:
    path = os.path.join(os.fsencode(tmp_path), name)
    with open(path, "wb") as file:
        file.write(encoded(Image.new("L", (4, 4)), "PNG"))
    with media.open_source(path) as file:
        assert media.media_type(file.read(media.HEAD_BYTES)) == media.PNG
    with media.open_source(os.fsdecode(path)) as file:
        assert file.read(4) == b"\x89PNG"


def test_a_device_is_no_document() -> None:
    with pytest.raises(UnreadableSource, match="device"):
        media.open_source("/dev/zero")


def test_refused_files_leave_no_open_descriptor(tmp_path) -> None:
    (tmp_path / "empty").touch()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        with pytest.raises(EmptyFile):
            media.open_source(str(tmp_path / "empty"))
        with pytest.raises(UnreadableSource):
            media.open_source(str(tmp_path))
    assert len(os.listdir("/proc/self/fd")) == before
