//! Where a security policy forbids io_uring, block files read through threads and say so.

use std::io;

use terrace_media::{AlignedBuf, BlockDevice, BlockFile, BlockFileOptions, BlockQueue, IO_ALIGN};

/// Makes `io_uring_setup` fail with EPERM on this thread, and on those that it starts, for the rest of their lives.
fn forbid_rings() -> io::Result<()> {
    let step = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let mut program = [
        // The system call's number is the first word of what a filter sees.
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, libc::SYS_io_uring_setup as u32),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the filter and its program outlive the calls, which copy them; only this thread is bound by them.
    let result = unsafe {
        if libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 {
            return Err(io::Error::last_os_error());
        }
        libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[test]
fn a_forbidden_ring_falls_back_to_threads() {
    let guarded = std::thread::spawn(|| {
        if let Err(error) = forbid_rings() {
            eprintln!("not tested: this system has no system call filters ({error})");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("blocks");
        let file = BlockFile::create(&path, 8 * IO_ALIGN as u64, &BlockFileOptions::default()).unwrap();
        assert!(!file.has_ring());
        assert!(file.describe().ends_with("reader threads"), "{}", file.describe());
        let mut page = AlignedBuf::zeroed(IO_ALIGN);
        page.fill(3);
        file.write_at(IO_ALIGN as u64, &page).unwrap();
        let mut queue = file.queue(2).unwrap();
        queue.submit(9, IO_ALIGN as u64, AlignedBuf::zeroed(IO_ALIGN)).unwrap();
        let mut out = Vec::new();
        queue.reap(true, &mut out);
        assert!(out[0].result.is_ok() && out[0].buf.iter().all(|byte| *byte == 3));
    });
    guarded.join().unwrap();
}
