//! The encoder's bytes in both versions, and answers of any shape read back.

use proptest::prelude::*;
use terrace_protocol::resp::{DecodeError, Encoder, Value, Version};

fn encoded(version: Version, write: impl Fn(&mut Encoder<'_>)) -> String {
    let mut out = Vec::new();
    write(&mut Encoder::new(&mut out, version));
    String::from_utf8_lossy(&out).into_owned()
}

#[test]
fn each_type_in_both_versions() {
    type Write = fn(&mut Encoder<'_>);
    let cases: [(Write, &str, &str); 16] = [
        (|e| e.simple("OK"), "+OK\r\n", "+OK\r\n"),
        (|e| e.error(b"ERR a\r\nb"), "-ERR a  b\r\n", "-ERR a  b\r\n"),
        (|e| e.integer(i64::MIN), ":-9223372036854775808\r\n", ":-9223372036854775808\r\n"),
        (|e| e.bulk(b""), "$0\r\n\r\n", "$0\r\n\r\n"),
        (|e| e.bulk(b"a\r\n"), "$3\r\na\r\n\r\n", "$3\r\na\r\n\r\n"),
        (|e| e.null(), "$-1\r\n", "_\r\n"),
        (|e| e.null_array(), "*-1\r\n", "_\r\n"),
        (|e| e.array(2), "*2\r\n", "*2\r\n"),
        (|e| e.map(2), "*4\r\n", "%2\r\n"),
        (|e| e.set(2), "*2\r\n", "~2\r\n"),
        (|e| e.boolean(true), ":1\r\n", "#t\r\n"),
        (|e| e.boolean(false), ":0\r\n", "#f\r\n"),
        (|e| e.double(1.5), "$3\r\n1.5\r\n", ",1.5\r\n"),
        (|e| e.double(f64::NEG_INFINITY), "$4\r\n-inf\r\n", ",-inf\r\n"),
        (|e| e.double(1e300), "$5\r\n1e300\r\n", ",1e300\r\n"),
        (|e| e.verbatim(b"hi"), "$2\r\nhi\r\n", "=6\r\ntxt:hi\r\n"),
    ];
    for (write, two, three) in cases {
        assert_eq!(encoded(Version::Resp2, write), two);
        assert_eq!(encoded(Version::Resp3, write), three);
    }
}

#[test]
fn what_is_no_answer_is_refused() {
    for wrong in ["x\r\n", "\r\n", ":x\r\n", "$-2\r\n", "#x\r\n", ",x\r\n", "=2\r\nab\r\n", "$1\r\nabc"] {
        assert_eq!(Value::decode(wrong.as_bytes()), Err(DecodeError), "{wrong:?}");
    }
    assert_eq!(Value::decode("*1\r\n".repeat(40).as_bytes()), Err(DecodeError), "nested without end");
    assert_eq!(Value::decode(b"*1048576\r\n:1\r\n"), Ok(None), "a claim is no allocation");
}

fn write(encoder: &mut Encoder<'_>, value: &Value) {
    match value {
        Value::Simple(text) => encoder.simple(&String::from_utf8_lossy(text)),
        Value::Error(text) => encoder.error(text),
        Value::Integer(number) => encoder.integer(*number),
        Value::Bulk(bytes) => encoder.bulk(bytes),
        Value::Null => encoder.null(),
        Value::Boolean(value) => encoder.boolean(*value),
        Value::Double(value) => encoder.double(*value),
        Value::Verbatim(text) => encoder.verbatim(text),
        Value::Array(values) => {
            encoder.array(values.len());
            values.iter().for_each(|value| write(encoder, value));
        }
        Value::Push(values) => {
            encoder.push(values.len());
            values.iter().for_each(|value| write(encoder, value));
        }
        Value::Set(values) => {
            encoder.set(values.len());
            values.iter().for_each(|value| write(encoder, value));
        }
        Value::Map(pairs) => {
            encoder.map(pairs.len());
            for (key, value) in pairs {
                write(encoder, key);
                write(encoder, value);
            }
        }
    }
}

fn value() -> impl Strategy<Value = Value> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..30);
    let leaf = prop_oneof![
        "[a-zA-Z ]{0,10}".prop_map(|text| Value::Simple(text.into_bytes())),
        "[a-zA-Z ]{0,10}".prop_map(|text| Value::Error(text.into_bytes())),
        any::<i64>().prop_map(Value::Integer),
        bytes().prop_map(Value::Bulk),
        Just(Value::Null),
        any::<bool>().prop_map(Value::Boolean),
        prop_oneof![prop::num::f64::NORMAL, prop::num::f64::SUBNORMAL, prop::num::f64::INFINITE, Just(0.0)]
            .prop_map(Value::Double),
        bytes().prop_map(Value::Verbatim),
    ];
    leaf.prop_recursive(4, 32, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::Array),
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::Push),
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::Set),
            prop::collection::vec((inner.clone(), inner), 0..5).prop_map(Value::Map),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn answers_survive_the_wire(value in value()) {
        let mut out = Vec::new();
        write(&mut Encoder::new(&mut out, Version::Resp3), &value);
        for end in 0..out.len() {
            prop_assert_eq!(Value::decode(&out[..end]), Ok(None));
        }
        prop_assert_eq!(Value::decode(&out), Ok(Some((value, out.len()))));
    }
}
