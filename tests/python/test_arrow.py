"""Parquet and Arrow files that pyarrow writes, read by ftune-arrow.so: every row's JSON is to_pylist()'s.

Where pyarrow is absent the tests are skipped, which CTest counts."""

import datetime
import decimal
import json
import math
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

from cli_case import run_tests

try:
    import pyarrow as pa
    import pyarrow.feather as feather
    import pyarrow.parquet as pq
    import pyarrow.parquet.encryption as pe
except ImportError:
    pa = None

SKIPPED = 77  # CTest's SKIP_RETURN_CODE
UTC = datetime.timezone.utc


def tool(case):
    return Path(case.ftune).parent / "arrow_rows"


def read(case, *paths, count=False, environment=None, binary=None):
    """Each file's rows as (number, text) and its last line's parts."""
    done = subprocess.run(
        [binary or tool(case), *(["--count"] if count else []), *map(str, paths)],
        capture_output=True,
        timeout=600,
        env={**os.environ, **(environment or {})},
    )
    assert done.returncode == 0, f"exit {done.returncode}: {done.stdout[-500:]}{done.stderr[-2000:]}"
    results, rows = [], []
    for line in done.stdout.decode("utf-8", "surrogateescape").split("\n")[:-1]:
        parts = line.split("\t", 2)
        if parts[0] in ("end", "error"):
            results.append((rows, parts))
            rows = []
        else:
            rows.append((parts[0], parts[1] if len(parts) == 2 else tuple(parts[1:])))
    assert len(results) == len(paths), done.stdout[-500:]
    return results


def plain(value, kind):
    """What a Python value of an Arrow type is in JSON."""
    if value is None:
        return None
    if pa.types.is_map(kind):
        return {key: plain(item, kind.item_type) for key, item in value}
    if isinstance(value, list):
        return [plain(item, kind.value_type) for item in value]
    if isinstance(value, dict):
        return {
            kind.field(i).name: plain(value[kind.field(i).name], kind.field(i).type) for i in range(kind.num_fields)
        }
    if isinstance(value, decimal.Decimal):
        return str(value)
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        return value.astimezone(UTC).isoformat()
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    return value


def same(case, table, *paths):
    """All the files have the table's rows, numbered from 1, keys in order."""
    expected = [
        json.dumps({name: plain(value, table.schema.field(name).type) for name, value in row.items()})
        for row in table.to_pylist()
    ]
    for path, (rows, last) in zip(paths, read(case, *paths)):
        assert last == ["end"], f"{path.name}: {last}"
        assert [number for number, _ in rows] == [str(i + 1) for i in range(len(expected))], path.name
        for (number, text), wanted in zip(rows, expected):
            got = json.dumps(json.loads(text))
            assert got == wanted, f"{path.name}:{number}: {got}\nexpected {wanted}"


def fails(case, path, *says, **options):
    """One line that names the file and has all of `says`, exit code 4."""
    ((rows, last),) = read(case, path, **options)
    assert last[:2] == ["error", "4"], f"{path.name}: {last}, {len(rows)} rows"
    for part in (str(path), *says):
        assert part in last[2], f"'{part}' is not in: {last[2]}"
    return last[2]


def write_ipc(path, table, batch_rows=None, stream=False, **options):
    make = pa.ipc.new_stream if stream else pa.ipc.new_file
    with pa.OSFile(str(path), "wb") as file, make(file, table.schema, **options) as writer:
        writer.write_table(table, max_chunksize=batch_rows)
    return path


def write_all(case, table, name, parquet=True, batch_rows=None):
    """The table as Parquet, Arrow file, Arrow stream and Feather 2."""
    paths = []
    if parquet:
        paths.append(case.folder / f"{name}.parquet")
        pq.write_table(table, paths[-1], row_group_size=batch_rows)
    paths.append(write_ipc(case.folder / f"{name}-file.arrow", table, batch_rows))
    paths.append(write_ipc(case.folder / f"{name}-stream.arrow", table, batch_rows, stream=True))
    if all(not pa.types.is_dictionary(field.type) for field in table.schema):
        paths.append(case.folder / f"{name}.feather")
        feather.write_feather(table, paths[-1], chunksize=batch_rows)
    return paths


def conversations(count, seed=0):
    draw = random.Random(seed)
    words = [
        "alpha",
        "\u00e9t\u00e9",
        "\u6f22\u5b57",
        "\U0001f600",
        "line\nbreak",
        "tab\t",
        'quote"',
        "back\\slash",
        "nul\0",
        "\x1f",
    ]
    message = pa.struct([("role", pa.string()), ("content", pa.string())])
    rows = [
        {
            "id": i,
            "messages": (
                [
                    {
                        "role": draw.choice(["user", "assistant"]),
                        "content": draw.choice([None, " ".join(draw.choices(words, k=draw.randrange(30)))]),
                    }
                    for _ in range(draw.randrange(6))
                ]
                if draw.random() > 0.05
                else None
            ),
        }
        for i in range(count)
    ]
    return pa.Table.from_pylist(rows, pa.schema([("id", pa.int64()), ("messages", pa.list_(message))]))


def columns_of_every_type():
    """(name, type, values, whether Parquet has it)."""
    zone = datetime.timezone(datetime.timedelta(hours=2))
    moment = datetime.datetime(2024, 2, 29, 23, 59, 58, 120000)
    early = datetime.datetime(1, 1, 1)
    person = pa.struct([("name", pa.string()), ("tags", pa.list_(pa.string())), ("none", pa.null())])
    ann = {"name": "Ann", "tags": ["a", None], "none": None}
    yield "string", pa.string(), ["", "a\u20ac\U0001f600\0\n\"\\/\x7f", None], True
    yield "large_string", pa.large_string(), ["long " * 50, None, "x"], True
    yield "string_view", pa.string_view(), ["short", "longer than twelve bytes", None], True
    yield "dictionary", pa.dictionary(pa.int8(), pa.string()), ["a", "b", "a"], True
    yield "dictionary_null", pa.dictionary(pa.int32(), pa.large_string()), [None, "b", "b"], True
    yield "bool", pa.bool_(), [True, False, None], True
    yield "null", pa.null(), [None, None, None], True
    for bits in (8, 16, 32, 64):
        yield f"int{bits}", getattr(pa, f"int{bits}")(), [-(2 ** (bits - 1)), 2 ** (bits - 1) - 1, None], True
        yield f"uint{bits}", getattr(pa, f"uint{bits}")(), [0, 2**bits - 1, None], True
    yield "exact", pa.int64(), [2**53 + 1, -(2**53) - 1, None], True
    yield "half", pa.float16(), [0.333251953125, -0.0, 65504.0], True
    yield "float", pa.float32(), [0.1, 3.4028234663852886e38, 1e-45], True
    yield "double", pa.float64(), [0.1, 5e-324, 1.7976931348623157e308], True
    yield "double_whole", pa.float64(), [1.0, -0.0, 1e22], True
    yield "date32", pa.date32(), [early.date(), datetime.date(1969, 12, 31), None], True
    yield "date64", pa.date64(), [datetime.date(9999, 12, 31), datetime.date(2000, 2, 29), None], True
    for unit in ("s", "ms", "us"):
        values = [moment.replace(microsecond=0) if unit == "s" else moment, early, None]
        yield f"timestamp_{unit}", pa.timestamp(unit), values, True
    yield "timestamp_ns", pa.timestamp("ns"), [moment, datetime.datetime(1969, 12, 31, 23, 59, 59, 999999), None], True
    yield "timestamp_zone", pa.timestamp("us", "+02:00"), [moment.replace(tzinfo=zone), None, None], True
    yield "timestamp_utc", pa.timestamp("ms", "UTC"), [moment.replace(tzinfo=UTC), None, None], True
    yield "time32", pa.time32("ms"), [datetime.time(0, 0), datetime.time(23, 59, 59, 999000), None], True
    yield "time64", pa.time64("us"), [datetime.time(12, 30, 0, 1), None, None], True
    yield "decimal32", pa.decimal32(5, 2), [decimal.Decimal("-123.45"), decimal.Decimal("0.00"), None], True
    yield "decimal64", pa.decimal64(15, 0), [decimal.Decimal("123456789012345"), None, None], True
    yield "decimal128", pa.decimal128(38, 10), [
        decimal.Decimal("1234567890123456789012345678.0123456789"),
        None,
        None,
    ], True
    yield "decimal256", pa.decimal256(60, 3), [decimal.Decimal("9" * 50 + ".125"), None, None], True
    yield "list", pa.list_(pa.int32()), [[1, None, 3], [], None], True
    yield "large_list", pa.large_list(pa.string()), [["a", ""], None, []], True
    yield "fixed_list", pa.list_(pa.float32(), 2), [[1.5, 2.5], [0.0, -1.0], None], True
    yield "list_view", pa.list_view(pa.int16()), [[1], None, [2, 3]], False
    yield "large_list_view", pa.large_list_view(pa.string()), [["x"], [], None], False
    yield "struct", person, [ann, {"name": None, "tags": None, "none": None}, None], True
    yield "nested", pa.list_(pa.list_(person)), [[[ann], []], None, [None, [ann, None]]], True
    yield "map", pa.map_(pa.string(), pa.int64()), [[("a", 1), ("b", None)], [], None], True
    yield "map_nested", pa.map_(pa.string(), pa.list_(person)), [[("a\"", [ann])], None, []], True


def test_every_type(case):
    for parquet in (True, False):
        columns = [column for column in columns_of_every_type() if column[3] >= parquet]
        table = pa.table(
            [pa.array(values, kind) for _, kind, values, _ in columns], names=[name for name, *_ in columns]
        )
        assert table.num_rows == 3
        same(case, table, *write_all(case, table, f"types-{parquet}", parquet=parquet))
        # Arrays that begin in the middle of their buffers.
        same(case, table.slice(1), *write_all(case, table.slice(1), f"slice-{parquet}", parquet=parquet))


def test_nanoseconds(case):
    table = pa.table(
        {"t": pa.array([1, -1, 10**9, 1500], pa.timestamp("ns")), "u": pa.array([1, 0, 999, 1000], pa.time64("ns"))}
    )
    for rows, last in read(case, *write_all(case, table, "ns")):
        assert last == ["end"], last
        assert [json.loads(text) for _, text in rows] == [
            {"t": "1970-01-01T00:00:00.000000001", "u": "00:00:00.000000001"},
            {"t": "1969-12-31T23:59:59.999999999", "u": "00:00:00"},
            {"t": "1970-01-01T00:00:01", "u": "00:00:00.000000999"},
            {"t": "1970-01-01T00:00:00.000001500", "u": "00:00:00.000001"},
        ], rows


def test_numbers_round_trip(case):
    draw = random.Random(1)
    bits = [draw.getrandbits(64).to_bytes(8, "little") for _ in range(20000)]
    import struct

    doubles = [x for b in bits if math.isfinite(x := struct.unpack("<d", b)[0])]
    floats = [x for b in bits if math.isfinite(x := struct.unpack("<f", b[:4])[0])][: len(doubles)]
    integers = [int.from_bytes(b, "little", signed=True) for b in bits][: len(floats)]
    table = pa.table({"double": doubles[: len(floats)], "float": pa.array(floats, pa.float32()), "int": integers})
    same(case, table, *write_all(case, table, "numbers", batch_rows=3000))


def test_compressions(case):
    table = conversations(2500)
    paths = []
    for codec in ("none", "snappy", "zstd", "gzip", "lz4", "brotli"):
        for version in ("1.0", "2.0"):
            paths.append(case.folder / f"{codec}-{version}.parquet")
            pq.write_table(
                table,
                paths[-1],
                compression=codec,
                data_page_version=version,
                row_group_size=700,
                data_page_size=4096,
                write_page_checksum=True,
            )
    for codec in (None, "lz4", "zstd"):
        for stream in (True, False):
            paths.append(
                write_ipc(
                    case.folder / f"{codec}-{stream}.arrow",
                    table,
                    700,
                    stream,
                    options=pa.ipc.IpcWriteOptions(compression=codec),
                )
            )
    same(case, table, *paths)


def test_parquet_without_arrow_schema(case):
    """As other writers make it: the types are those of Parquet."""
    table = conversations(300)
    path = case.folder / "plain.parquet"
    pq.write_table(table, path, store_schema=False, use_dictionary=False, row_group_size=100)
    same(case, table, path)


def test_dictionaries_in_streams(case):
    """Dictionaries that grow (deltas) and that are replaced, as streams may have them."""
    for name, deltas in (("delta", True), ("replaced", False)):
        kind = pa.dictionary(pa.int8(), pa.string())
        first = pa.record_batch([pa.DictionaryArray.from_arrays(pa.array([0, 1, None], pa.int8()), ["a", "b"])], ["d"])
        words = ["a", "b", "c"] if deltas else ["x", "y"]
        second = pa.record_batch(
            [pa.DictionaryArray.from_arrays(pa.array([1, 0, len(words) - 1], pa.int8()), words)], ["d"]
        )
        path = case.folder / f"{name}.arrow"
        options = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=deltas)
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(
            file, pa.schema([("d", kind)]), options=options
        ) as writer:
            writer.write_batch(first)
            writer.write_batch(second)
        same(case, pa.Table.from_batches([first, second]), path)


def test_datasets_cache(case):
    """Streams as the library datasets writes them: batches of 1000 rows, its features in the metadata."""
    table = conversations(3456)
    features = {"info": {"features": {"id": {"dtype": "int64", "_type": "Value"}}}}
    table = table.replace_schema_metadata({"huggingface": json.dumps(features)})
    same(case, table, write_ipc(case.folder / "data-00000-of-00001.arrow", table, 1000, stream=True))


def test_json_columns(case):
    """Text of the extension type arrow.json is the value that it describes."""
    texts = ['{"a": [1, 2.50, null]}', '"text\\n"', "null", '{\n"b": {}}', None]
    storage = pa.array(texts, pa.string())
    table = pa.table({"j": pa.ExtensionArray.from_storage(pa.json_(pa.string()), storage)})
    for rows, last in read(case, *write_all(case, table, "json")):
        assert last == ["end"] and [text for _, text in rows] == [
            '{"j":' + (text or "null").replace("\n", " ") + "}" for text in texts
        ], rows
    for text in ('1, "k": 2', "", "{", "\n"):
        table = pa.table(
            {"j": pa.ExtensionArray.from_storage(pa.json_(pa.string()), pa.array(["1", text], pa.string()))}
        )
        for path in write_all(case, table, "broken"):
            fails(case, path, ":2: error: j: ", "not JSON")


def test_several_blocks(case):
    """Rows go on from block to block, whatever the batches; a row may be larger than a block."""
    rows = [{"n": i, "text": "x" * 3000} for i in range(4000)] + [
        {"n": 4000, "text": "y" * 9_000_000},
        {"n": 4001, "text": ""},
    ]
    table = pa.Table.from_pylist(rows)
    for batch_rows in (37, 100_000):
        same(case, table, *write_all(case, table, f"blocks-{batch_rows}", batch_rows=batch_rows))


def test_memory(case):
    """A row group of 256 MB, whose columns would be read at once, and a stream of as much in batches."""
    draw = random.Random(2)
    piece = "".join(chr(draw.randrange(97, 123)) for _ in range(1 << 16))
    texts = [piece[k : k + 4096] + str(i) for i in range(62500) for k in [draw.randrange(60000)]]
    table = pa.table({"text": texts})
    parquet = case.folder / "large.parquet"
    pq.write_table(table, parquet, row_group_size=len(texts), compression="none", use_dictionary=False)
    stream = write_ipc(case.folder / "large.arrow", table, 1000, stream=True)
    peak = {}
    for path in (parquet, stream):
        ((rows, last),) = read(case, path, count=True)
        assert last == ["end"] and rows[0][0] == "rows" and rows[0][1][0] == str(len(texts)), (rows, last)
        peak[path.name] = int(rows[1][1]) // 1024
    size = parquet.stat().st_size >> 20
    print(f"  {size} MB: {peak} MB resident at most", flush=True)
    assert size >= 240 and max(peak.values()) < 130, peak
    for path in (parquet, stream):
        path.unlink()


def test_types_without_json(case):
    class Point(pa.ExtensionType):
        def __init__(self):
            super().__init__(pa.list_(pa.float32(), 2), "geo.point")

        def __arrow_ext_serialize__(self):
            return b""

        @classmethod
        def __arrow_ext_deserialize__(cls, storage, serialized):
            return cls()

    point = pa.ExtensionArray.from_storage(Point(), pa.array([[0, 1]], pa.list_(pa.float32(), 2)))
    image = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    uuid = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([bytes(16)], pa.binary(16)))
    for name, array, parquet, says in [
        ("binary", pa.array([b"x"]), True, ["column: found the type binary"]),
        ("large_binary", pa.array([b"x"], pa.large_binary()), True, ["column: found the type large_binary"]),
        ("fixed_binary", pa.array([b"xyz"], pa.binary(3)), True, ["column: found the type fixed_size_binary[3]"]),
        (
            "image",
            pa.array([[{"bytes": b"x", "path": "p"}]], pa.list_(image)),
            True,
            ["column.bytes: found the type binary"],
        ),
        ("duration", pa.array([1], pa.duration("s")), True, ["column: found the type duration[s]"]),
        (
            "interval",
            pa.array([(1, 2, 3)], pa.month_day_nano_interval()),
            False,
            ["column: found the type month_day_nano"],
        ),
        ("extension", point, True, ["column: found the extension type geo.point"]),
        ("uuid", uuid, True, ["column: found the extension type arrow.uuid"]),
        (
            "int_map",
            pa.array([[(1, 2)]], pa.map_(pa.int32(), pa.int32())),
            True,
            ["column: found a map with keys of type int32"],
        ),
        (
            "union",
            pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])]),
            False,
            ["column: found the type sparse_union"],
        ),
        ("run_end", pa.RunEndEncodedArray.from_arrays([1], ["a"]), False, ["column: found the type run_end_encoded"]),
    ]:
        table = pa.table([pa.array([1]), array], names=["n", "column"])
        for path in write_all(case, table, name, parquet=parquet):
            fails(case, path, *says, "leave the column out")


def test_values_without_json(case):
    late = pa.array([0, 2932897], pa.int32()).cast(pa.date32())
    far = pa.array([0, 2**62], pa.int64()).cast(pa.timestamp("s"))
    before = pa.array([0, -62135596801], pa.int64()).cast(pa.timestamp("s"))
    for name, array, parquet, says in [
        ("nan", pa.array([1.0, math.nan]), True, ["found NaN, expected a finite number"]),
        ("infinity", pa.array([1.0, -math.inf], pa.float32()), True, ["found infinity"]),
        ("nested", pa.array([[{"c": [0.0]}], [{"c": [1.0, math.inf]}]]), True, ["x.c: found infinity"]),
        ("twice", pa.array([[], [("a", 1), ("a", 2)]], pa.map_(pa.string(), pa.int32())), True, ['key "a" twice']),
        ("late", late, True, ["outside the years 1 to 9999"]),
        ("far", far, False, ["outside the years 1 to 9999"]),
        ("before", before, False, ["outside the years 1 to 9999"]),
    ]:
        table = pa.table([array], names=["x"])
        for path in write_all(case, table, name, parquet=parquet):
            fails(case, path, ":2: error: x", *says)
    # A row before the broken one is not lost from the count: the message has the row of the file, not of a batch.
    table = pa.table({"x": [0.0] * 2500 + [math.nan]})
    for path in write_all(case, table, "last", batch_rows=1000):
        fails(case, path, ":2501: error: x: found NaN")


def test_names_twice(case):
    table = pa.table([[1], [2]], names=["a", "a"])
    for path in (
        write_ipc(case.folder / "twice.arrow", table),
        write_ipc(case.folder / "twice-s.arrow", table, stream=True),
    ):
        fails(case, path, "a: two columns have this name")


def test_nothing_in_it(case):
    for table, says in (
        (pa.table({"a": pa.array([], pa.string())}), "found no rows"),
        (pa.table({}), "found no columns"),
        (pa.table([pa.array([1, 2])], names=["a"]).select([]), "found no columns"),
    ):
        for path in write_all(case, table, "nothing"):
            fails(case, path, says)


def test_other_files(case):
    for name, data, *says in [
        ("empty.parquet", b"", "found an empty file"),
        ("text.parquet", b'{"messages": []}\n', "found something else", "expected a Parquet or Arrow file"),
        (
            "lfs.parquet",
            b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n",
            "a pointer of Git LFS",
            "git lfs pull",
        ),
        ("magic.parquet", b"PAR1", "cannot be read"),
        ("magics.parquet", b"PAR1PAR1", "cannot be read"),
        ("magic.arrow", b"ARROW1\0\0", "cannot be read"),
        ("mark.arrow", b"\xff\xff\xff\xff", "cannot be read"),
        ("old.feather", b"FEA1" + bytes(20), "first version of Feather"),
    ]:
        path = case.folder / name
        path.write_bytes(data)
        fails(case, path, *says)
    (case.folder / "folder.parquet").mkdir()
    fails(case, case.folder / "folder.parquet", "found a folder")
    fails(case, case.folder / "missing.parquet", "No such file")


def test_encrypted(case):
    class Kms(pe.KmsClient):
        def __init__(self, config):
            super().__init__()

        def wrap_key(self, key, master):
            return key

        def unwrap_key(self, key, master):
            return key

    import base64

    class Kms64(Kms):
        def wrap_key(self, key, master):
            return base64.b64encode(key)

        def unwrap_key(self, key, master):
            return base64.b64decode(key)

    factory = pe.CryptoFactory(lambda config: Kms64(config))
    table = conversations(20)
    for plaintext_footer in (False, True):
        options = pe.EncryptionConfiguration(
            footer_key="f", column_keys={"k": ["id"]}, plaintext_footer=plaintext_footer
        )
        path = case.folder / f"encrypted-{plaintext_footer}.parquet"
        with pq.ParquetWriter(
            path,
            table.schema,
            encryption_properties=factory.file_encryption_properties(pe.KmsConnectionConfig(), options),
        ) as writer:
            writer.write_table(table)
        fails(case, path, "encrypted", "write it anew without encryption")


def damaged_files(case, change):
    """Small files of all kinds, and each changed by `change(data)` in many ways."""
    table = (
        pa.concat_tables([conversations(40), conversations(40, seed=1)])
        .append_column("d", pa.array(["a", "b", "c", None] * 20).dictionary_encode())
        .append_column("v", pa.array(["short", "a view that is long enough"] * 40, pa.string_view()))
    )
    table = table.append_column("m", pa.array([[("k", 1)], []] * 40, pa.map_(pa.string(), pa.int8())))
    paths = write_all(case, table, "whole", batch_rows=40)
    for codec in ("zstd", "lz4"):
        paths.append(
            write_ipc(
                case.folder / f"whole-{codec}.arrow", table, 40, options=pa.ipc.IpcWriteOptions(compression=codec)
            )
        )
    paths.append(case.folder / "pages.parquet")
    pq.write_table(table, paths[-1], data_page_version="2.0", compression="gzip", write_page_checksum=True)
    same(case, table, *paths)
    for path in paths:
        yield path, list(change(path.read_bytes()))


def read_damaged(case, path, variants):
    """The results of reading each variant, by processes that end as they should."""
    results = []
    for begin in range(0, len(variants), 500):
        names = []
        for i, data in enumerate(variants[begin : begin + 500]):
            names.append(case.folder / f"damaged-{i}")
            names[-1].write_bytes(data)
        results += read(case, *names)
    return results


def test_truncated(case):
    def prefixes(data):
        return (data[:size] for size in range(0, len(data), max(1, len(data) // 1500)))

    for path, variants in damaged_files(case, prefixes):
        for data, (rows, last) in zip(variants, read_damaged(case, path, variants)):
            assert last[:2] == ["error", "4"], f"{path.name} cut at {len(data)}: {last}, {len(rows)} rows"
            assert "\n" not in last[2] and "damaged-" in last[2], last[2]


def test_flipped_bytes(case):
    def flips(data):
        draw = random.Random(len(data))
        for _ in range(1500):
            changed = bytearray(data)
            for _ in range(draw.choice([1, 1, 4])):
                changed[draw.randrange(8, len(data))] = draw.choice([0, 1, 0x7F, 0x80, 0xFF, draw.randrange(256)])
            yield bytes(changed)

    for path, variants in damaged_files(case, flips):
        results = read_damaged(case, path, variants)
        refused = [last[2] for _, last in results if last[0] == "error"]
        print(f"  {path.name}: {len(refused)} of {len(results)} refused", flush=True)
        assert refused and all("damaged-" in message for message in refused)


def test_unfinished_streams(case):
    table = conversations(100)
    whole = write_ipc(case.folder / "whole.arrow", table, 25, stream=True).read_bytes()
    cut = case.folder / "cut.arrow"
    cut.write_bytes(whole[:-8])
    fails(case, cut, "after row 100", "the stream has no end")
    joined = case.folder / "joined.arrow"
    joined.write_bytes(whole + whole)
    fails(case, joined, "after row 100", f"{len(whole)} bytes follow the end of the stream")


def test_plugin_missing(case):
    """A binary on a host of its own: no plugin; a plugin without Arrow's libraries; all three; another version's."""
    path = case.folder / "rows.parquet"
    table = conversations(5)
    pq.write_table(table, path)
    alone = case.folder / "alone"
    alone.mkdir()
    binary = Path(shutil.copy(tool(case), alone))
    plugin = tool(case).parent / "ftune-arrow.so"
    install = "install the Python package pyarrow"
    fails(case, path, f"ftune-arrow.so, which is not in {alone}", install, binary=binary)
    fails(
        case, path, f"not in {case.folder} or {alone}", binary=binary, environment={"FTUNE_PLUGINS": f":{case.folder}:"}
    )
    ((rows, last),) = read(case, path, binary=binary, environment={"FTUNE_PLUGINS": f"/nowhere:{plugin.parent}"})
    assert last == ["end"] and len(rows) == 5, last

    # The folder of the build, which the plugin remembers, renamed: as on a host that does not have it.
    bare = case.folder / "bare"
    bare.mkdir()
    data = plugin.read_bytes()
    remembered = str(Path(pa.__path__[0]))
    libraries = [
        p for p in sorted(Path(remembered).glob("lib*.so.*")) if p.name.startswith(("libarrow.so.", "libparquet.so."))
    ]
    runpath = next((part for part in data.split(b"\0") if part.startswith(b"$ORIGIN:/")), None)
    assert runpath, "the plugin has no run path"
    (bare / plugin.name).write_bytes(data.replace(runpath, b"$ORIGIN:/" + b"x" * (len(runpath) - 9)))
    fails(
        case, path, "cannot be loaded", "libarrow.so", install, binary=binary, environment={"FTUNE_PLUGINS": str(bare)}
    )
    for library in libraries:
        (bare / library.name).symlink_to(library)
    ((rows, last),) = read(case, path, binary=binary, environment={"FTUNE_PLUGINS": str(bare)})
    assert last == ["end"] and len(rows) == 5, last

    other = case.folder / "other"
    other.mkdir()
    for source, says in (
        ("int ftune;", "not a plugin of ftune"),
        (
            "struct {int abi;} p = {99}; const void* ftune_arrow_plugin(void) {return &p;}",
            "found interface 99, expected interface 1",
        ),
    ):
        subprocess.run(
            ["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", other / plugin.name], input=source, text=True, check=True
        )
        fails(case, path, "ftune-arrow.so", says, binary=binary, environment={"FTUNE_PLUGINS": str(other)})
    (other / plugin.name).write_text("no library")
    fails(case, path, "cannot be loaded", install, binary=binary, environment={"FTUNE_PLUGINS": str(other)})


if __name__ == "__main__":
    if pa is None:
        print("SKIP: the tests of Parquet and Arrow files: this Python has no pyarrow")
        sys.exit(SKIPPED)
    sys.exit(run_tests(globals(), __doc__))
