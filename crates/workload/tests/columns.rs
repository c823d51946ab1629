//! Columns that are described: by name and by position, units, operations, objects, and the errors
//! of wrong lines and descriptions.

mod support;

use destage_workload::trace::{Columns, Op, ReadOptions, TimeOrder};
use support::{of_format, read, tuple};

type Tuple = (u64, u32, u64, u64, Op);

fn of_columns(text: &str) -> ReadOptions {
    let columns = Some(Columns::parse(text).expect("a description"));
    ReadOptions { columns, ..ReadOptions::default() }
}

fn records(content: &str, columns: &str) -> Vec<Tuple> {
    let read = read(content.as_bytes(), "t", &of_columns(columns)).expect("a trace");
    read.iter().map(tuple).collect()
}

fn error(content: &str, columns: &str) -> String {
    read(content.as_bytes(), "t", &of_columns(columns)).expect_err("refused").to_string()
}

#[test]
fn the_same_requests_are_found_by_name_and_by_position() {
    let expected = [(0, 3, 4096, 1024, Op::Write), (250_000, 4, 8192, 512, Op::Read)];
    let named = "time=when:ms, offset=where:sectors, op=what:read=0:write=1, size=len:sectors, \
                 device=disk";
    let placed = "time=1:ms,offset=2:sectors,op=3:read=0:write=1,size=4:512,device=6";
    for (separator, name) in
        [(";", "semicolon"), (",", "comma"), ("\t", "tab"), (" ", "space"), ("|", "bar")]
    {
        let content = "when;where;what;len;note;disk\n0.5;8;1;2;x;3\n0.75;16;0;1;y;4\r\n";
        let content = content.replace(';', separator);
        let without = content.split_once('\n').expect("lines").1;
        for columns in [named, placed] {
            assert_eq!(records(&content, columns), expected, "{name}");
            assert_eq!(records(&content, &format!("{columns},sep={name}")), expected, "{name}");
        }
        assert_eq!(records(without, placed), expected, "{name}");
    }
    let quoted = "\"when\",\"a, b\",where,what,len,disk\n0.5,\"x,y\",8,1,2,3\n0.75,,16,0,1,4\n";
    assert_eq!(records(quoted, named), expected);
}

#[test]
fn units_are_exact() {
    let times = |unit: &str, first: &str, second: &str| {
        let columns = format!("time=1:{unit},offset=2,size=3");
        records(&format!("{first},0,1\n{second},0,1\n"), &columns)[1].0
    };
    assert_eq!(times("s", "1455592828.00003", "1455592828.00004"), 10_000);
    assert_eq!(times("ms", "0.5", "1e1"), 9_500_000);
    assert_eq!(times("us", "1577808144360767", "1577808144360768"), 1000);
    assert_eq!(times("ns", "18446744073709551614", "18446744073709551615"), 1);
    assert_eq!(times("filetime", "128166372003061629", "128166372003061639"), 1000);
    for (unit, bytes) in [("bytes", 1), ("sectors", 512), ("pages", 4096), ("4K", 4096), ("3", 3)] {
        let found = records("7,2\n", &format!("offset=1:{unit},size=2:{unit}"));
        assert_eq!(found, [(0, 0, 7 * bytes, 2 * bytes, Op::Unknown)]);
    }
    assert_eq!(records("7\n", "offset=1:pages"), [(0, 0, 28_672, 4096, Op::Unknown)]);
    assert_eq!(records("7.0,1\n", "offset=1,size=2")[0].2, 7);
}

#[test]
fn operations_are_lists_and_the_most_exact_text_decides() {
    let columns = "offset=2,size=3,op=1:read=*:write=PUT*|4:skip=PUT_TRIM*|sync:unknown=\"?\"";
    let content = "get,0,1\nput,0,1\nPut_Trim_All,0,1\nSYNC,0,1\nPUT_X,0,1\n4,0,1\n44,0,1\n?,0,1\n";
    let ops: Vec<Op> = records(content, columns).iter().map(|record| record.4).collect();
    use Op::{Read, Unknown, Write};
    assert_eq!(ops, [Read, Write, Write, Write, Read, Unknown]);
    let words = records("R,0,1\nwrite,0,1\n?,0,1\n", "offset=2,size=3,op=1");
    assert_eq!(words.iter().map(|record| record.4).collect::<Vec<_>>(), [Read, Write, Unknown]);
}

#[test]
fn a_wrong_line_names_the_line_and_the_column() {
    let columns = "time=ts:us, op=kind:read=1|2:write=3, offset=lba:sectors, size=len";
    let header = "ts,kind,lba,len\n";
    for (line, wrong) in [
        ("x5,1,0,1", "expected a time as a number in column ts, found `x5`"),
        ("5,9,0,1", "expected read=1|2 or write=3 in column kind, found `9`"),
        (
            "5,1,-8,1",
            "expected an offset as a whole number of units of 512 bytes in column lba, found `-8`",
        ),
        ("5,1,0,1.5", "expected a size as a whole number of bytes in column len, found `1.5`"),
        ("5,1,0,", "expected a size as a whole number of bytes in column len, found ``"),
        ("5,1,0", "expected a line that has the column len, number 4, found `5,1,0`"),
    ] {
        let content = format!("{header}1,1,0,1\n{line}\n9,3,0,1\n");
        assert_eq!(error(&content, columns), format!("t: line 3: {wrong}"));
        let options = ReadOptions { skip_bad: true, ..of_columns(columns) };
        assert_eq!(read(content.as_bytes(), "t", &options).expect("read").len(), 2);
    }
    assert_eq!(
        error("time,kind,lba,len\n1,1,0,1\n", columns),
        "t: line 1: no column is named ts; there are: time, kind, lba, len"
    );
    assert_eq!(
        error(header, "time=ts,offset=lba,size=len"),
        "t: line 1: expected a unit of time in columns, e.g. time=ts:us, found `ts`"
    );
}

#[test]
fn a_pattern_finds_the_only_column_that_is_like_it() {
    let columns = "time=*time*:us, op=*kind:read=R:write=W, offset=off*:sectors, size=\"l*\"";
    let lines = "5,R,8,512\n6,W,16,1024\n";
    for names in ["Op_Time,kind,OFFSET,l*", "timestamp,IO_Kind,off_sectors,l*"] {
        let found = records(&format!("{names}\n{lines}"), columns);
        assert_eq!(found, [(0, 0, 4096, 512, Op::Read), (1000, 0, 8192, 1024, Op::Write)]);
    }
    let refused = |names: &str| error(&format!("{names}\n{lines}"), columns);
    assert_eq!(
        refused("submit_time,kind,offset,l*,done_time"),
        "t: line 1: several columns are like *time*: submit_time, done_time"
    );
    assert_eq!(
        refused("time,kind,lba,l*"),
        "t: line 1: no column is like off*; there are: time, kind, lba, l*"
    );
    // What is wrong with a value is said of the column that was found.
    assert_eq!(
        error("time,kind,Offset,l*\n5,R,x,1\n", columns),
        "t: line 2: expected an offset as a whole number of units of 512 bytes in column Offset, \
         found `x`"
    );
}

#[test]
fn one_of_two_columns_with_a_name_is_not_taken() {
    let lines = "1,90,8,512\n2,91,16,512\n";
    for (names, positions) in [("ts,ts,lba,len", "1 and 2"), ("ts,ts,ts,len", "1 and 2 and 3")] {
        assert_eq!(
            error(&format!("{names}\n{lines}"), "time=ts:s, offset=3, size=4"),
            format!(
                "t: line 1: columns {positions} are named ts: give the position in place of the \
                 name"
            )
        );
    }
    // One that is not used may be there twice, and a position says which is meant.
    let content = format!("ts,ts,lba,len\n{lines}");
    for columns in ["offset=lba, size=len", "time=2:s, offset=lba, size=len"] {
        assert_eq!(records(&content, columns).len(), 2, "{columns}");
    }
}

#[test]
fn csv_with_other_columns_is_referred_to_their_description() {
    for options in [ReadOptions::default(), of_format("csv")] {
        let error = read(b"ts,kind,lba,len\n1,R,8,8\n", "io.csv", &options).expect_err("refused");
        assert_eq!(
            error.to_string(),
            "io.csv: line 1: its columns are ts, kind, lba, len: say what they hold with \
             --trace-columns, e.g. 'time=ts:us, op=kind, offset=lba:sectors, size=len'"
        );
    }
}

#[test]
fn objects_are_laid_out_in_the_order_of_their_first_appearance() {
    let columns = "object=file+part:64K, offset=at, size=len";
    let content = "file,part,at,len\nb,1,0,4096\na,1,8,8\nb,1,61440,4096\nb,11,0,1\nb1,1,0,1\n";
    let offsets: Vec<u64> = records(content, columns).iter().map(|record| record.2).collect();
    assert_eq!(offsets, [0, 65_536 + 8, 61_440, 2 * 65_536, 3 * 65_536]);
    let beyond = "file,part,at,len\nb,1,61440,4097\n";
    assert_eq!(
        error(beyond, columns),
        "t: line 2: expected a request within the 65536 bytes of an object (object=file+part:BYTES \
         sets another number), found `bytes 61440 to 65537`"
    );
    let named = records("h2,0,1\nh1,0,1\nh2,0,1\n", "device=1:name,offset=2,size=3");
    assert_eq!(named.iter().map(|record| record.1).collect::<Vec<_>>(), [0, 1, 0]);
}

#[test]
fn key_value_traces_are_refused_unless_keys_are_given_a_place() {
    let timed = "op_time,key,key_size,op,op_count,size,cache_hits,ttl\n\
                 564726470,798057486,83,GET,1,62,1,0\n564726471,55,20,SET_LEASE,1,4000,0,30\n\
                 564726471,55,20,DELETE,1,0,0,0\n564726472,798057486,83,GET_LEASE,2,0,0,0\n";
    let untimed = "key,op,size,op_count,key_size\n7,SET,82,1,40\n8,GET,0,1,40\n7,GET,82,3,40\n";
    for content in [timed, untimed] {
        for options in [ReadOptions::default(), of_format("cachelib-kv")] {
            let error = read(content.as_bytes(), "t", &options).expect_err("refused").to_string();
            assert_eq!(
                error,
                "t: the keys of a key-value trace have no addresses on a disk. `--trace-format \
                 cachelib-kv:place=4K` gives each key a place of 4 KiB, in the order of first \
                 appearance"
            );
        }
    }
    let placed = of_format("cachelib-kv:place=8K");
    let tuples = |content: &str| -> Vec<Tuple> {
        let read = read(content.as_bytes(), "t", &placed).expect("a trace");
        read.iter().map(tuple).collect()
    };
    use Op::{Read, Write};
    assert_eq!(
        tuples(timed),
        [
            (0, 0, 0, 62, Read),
            (1_000_000_000, 0, 8192, 4000, Write),
            (2_000_000_000, 0, 0, 0, Read)
        ]
    );
    assert_eq!(tuples(untimed), [(0, 0, 0, 82, Write), (0, 0, 8192, 0, Read), (0, 0, 0, 82, Read)]);
    let wrong =
        read(timed.as_bytes(), "t", &of_format("cachelib-kv:place=5")).expect_err("refused");
    assert_eq!(
        wrong.to_string(),
        "`cachelib-kv`: place must be bytes in pages of 4K, e.g. 64K, not `5`"
    );
}

#[test]
fn times_out_of_order_are_treated_as_in_other_formats() {
    let content = "5,0,1\n3,0,1\n9,0,1\n";
    let columns = "time=1:us,offset=2,size=3";
    assert_eq!(
        error(content, columns),
        "t: line 2: time -2000 ns is before the previous 0 ns; choose an order: sort, lift or skip"
    );
    let options = ReadOptions { order: TimeOrder::Sort, ..of_columns(columns) };
    let times = read(content.as_bytes(), "t", &options).expect("sorted");
    assert_eq!(times.iter().map(|record| record.time_ns).collect::<Vec<_>>(), [0, 2000, 6000]);
}

#[test]
fn bytes_that_are_taken_for_sectors_are_doubted() {
    use destage_workload::trace::info::TraceInfo;
    let lines: String = (0..1000u64).map(|i| format!("{i},{},65536\n", i * 65_536)).collect();
    let doubt = |columns: &str| {
        let opened = support::reader(lines.as_bytes(), "t", &of_columns(columns)).expect("a trace");
        TraceInfo::of(opened).expect("read").doubts.into_iter().next()
    };
    assert_eq!(doubt("time=1:ms,offset=2,size=3"), None);
    let doubted = doubt("time=1:ms,offset=2:sectors,size=3:sectors").expect("a warning");
    assert!(doubted.contains("33 GB per second"), "{doubted}");
    assert!(doubt("time=1:us,offset=2,size=3").is_some_and(|text| text.contains("65 GB")));
}

/// Bare numbers in formats that count sectors: all are multiples of 512, at a rate that arrays
/// have.
#[test]
fn steps_of_512_sectors_are_doubted() {
    use destage_workload::trace::info::TraceInfo;
    let doubts = |lines: &str, options: &ReadOptions| {
        let opened = support::reader(lines.as_bytes(), "t", options).expect("a trace");
        TraceInfo::of(opened).expect("read").doubts
    };
    type Line = fn(u64, u64) -> String;
    let lines = |count: u64, line: Line| -> String {
        (0..count).map(|i| line(i, i * 7919 % 1000 * 4096)).collect()
    };
    let ssdsim: Line = |i, offset| format!("{} 0 {offset} 4096 {}\n", i * 10_000_000, i % 2);
    let disksim: Line = |i, offset| format!("{i}0.5 0 {offset} 512 {}\n", i % 2);
    let tencent: Line = |i, offset| format!("{},{offset},8192,{},7\n", 1_538_323_200 + i, i % 2);
    let formats = [("ssdsim", ssdsim), ("disksim", disksim), ("tencent", tencent)];
    for (format, line) in formats {
        let (text, named) = (lines(100, line), of_format(format));
        let found = doubts(&text, &named);
        let [doubt] = &found[..] else { panic!("{format}: {found:?}") };
        assert!(doubt.contains("multiples of 512 sectors"), "{doubt}");
        // What the warning says reads bytes.
        let option = doubt.split_once("use --").expect("an option").1;
        let (name, value) = option.split_once(' ').expect("its value");
        let options = match name {
            "trace-columns" => of_columns(value.trim_matches('\'')),
            _ => of_format(value),
        };
        let bytes = read(text.as_bytes(), "t", &options).expect("a trace");
        let sectors = read(text.as_bytes(), "t", &named).expect("a trace");
        assert_eq!(bytes.len(), 100);
        for (one, other) in bytes.iter().zip(&sectors) {
            let (time_ns, device, offset, length, op) = tuple(one);
            assert_eq!((time_ns, device, 512 * offset, 512 * length, op), tuple(other), "{format}");
        }
        assert!(doubts(&text, &options).is_empty(), "{format}");
        // Few requests say nothing, and one that is not a multiple says that all are sectors.
        assert!(doubts(&lines(15, line), &named).is_empty(), "{format}");
        let odd = text.replacen(" 4096 ", " 4104 ", 1).replacen(" 512 ", " 8 ", 1);
        let odd = odd.replacen(",8192,", ",8,", 1);
        assert!(doubts(&odd, &named).is_empty(), "{format}");
    }
}
