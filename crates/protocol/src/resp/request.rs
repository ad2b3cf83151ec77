//! Requests as bytes, for clients.

/// Appends a command, its name first, as an array of strings.
pub fn write_request<T: AsRef<[u8]>>(args: &[T], out: &mut Vec<u8>) {
    let mut digits = itoa::Buffer::new();
    out.push(b'*');
    out.extend_from_slice(digits.format(args.len()).as_bytes());
    for arg in args {
        let arg = arg.as_ref();
        out.extend_from_slice(b"\r\n$");
        out.extend_from_slice(digits.format(arg.len()).as_bytes());
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(arg);
    }
    out.extend_from_slice(b"\r\n");
}
