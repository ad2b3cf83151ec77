//! The servers that a week is lived on: an engine, its tiers and their sizes.

/// What a server speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speaks {
    Redis,
    Memcached,
}

/// One of them.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    pub name: &'static str,
    pub speaks: Speaks,
    /// Options beside ports and directory.
    options: &'static [&'static str],
    /// The bound on its anonymous memory.
    pub dram_mib: u64,
    /// The tier that holds everything, as INFO names it; where there is none all lies in DRAM.
    pub tier: Option<&'static str>,
    /// Of it; in DRAM, what its index and buffers leave to records.
    pub tier_mib: u64,
    /// Whether data outlives the process, in order and not.
    pub keeps: bool,
    /// Whether a full tier evicts.
    pub evicts: bool,
}

/// All settings.
pub const ALL: [Setting; 10] = [
    Setting {
        name: "tac-ssd",
        speaks: Speaks::Redis,
        options: &["--engine", "tac", "--dram", "64MiB", "--ssd", "512MiB"],
        dram_mib: 64,
        tier: Some("ssd"),
        tier_mib: 512,
        keeps: true,
        evicts: false,
    },
    Setting {
        name: "tac-both",
        speaks: Speaks::Redis,
        options: &[
            "--engine",
            "tac",
            "--dram",
            "64MiB",
            "--pmem",
            "128MiB@MEMORY",
            "--profile",
            "optane-200",
            "--ssd",
            "512MiB",
        ],
        dram_mib: 64,
        tier: Some("ssd"),
        tier_mib: 512,
        keeps: true,
        evicts: false,
    },
    Setting {
        name: "hetermm",
        speaks: Speaks::Redis,
        options: &["--engine", "hetermm", "--dram", "64MiB", "--ssd", "512MiB"],
        dram_mib: 64,
        tier: Some("ssd"),
        tier_mib: 512,
        keeps: true,
        evicts: false,
    },
    Setting {
        name: "heap-hybrid",
        speaks: Speaks::Redis,
        options: &[
            "--engine",
            "heap-hybrid",
            "--dram",
            "64MiB",
            "--pmem",
            "512MiB@MEMORY",
            "--profile",
            "optane-200",
        ],
        dram_mib: 64,
        tier: Some("pmem"),
        tier_mib: 512,
        keeps: true,
        evicts: false,
    },
    Setting {
        name: "heap-object",
        speaks: Speaks::Redis,
        options: &[
            "--engine",
            "heap-hybrid",
            "--heap",
            "object",
            "--dram",
            "64MiB",
            "--pmem",
            "512MiB@MEMORY",
            "--profile",
            "optane-200",
        ],
        dram_mib: 64,
        tier: Some("pmem"),
        tier_mib: 512,
        keeps: true,
        evicts: false,
    },
    Setting {
        name: "heap-persistent",
        speaks: Speaks::Redis,
        options: &[
            "--engine",
            "heap-persistent",
            "--dram",
            "64MiB",
            "--pmem",
            "512MiB@MEMORY",
            "--profile",
            "optane-200",
        ],
        dram_mib: 64,
        tier: Some("pmem"),
        tier_mib: 512,
        keeps: true,
        evicts: false,
    },
    Setting {
        name: "scmkv",
        speaks: Speaks::Redis,
        options: &[
            "--engine",
            "scmkv",
            "--dram",
            "64MiB",
            "--pmem",
            "512MiB@MEMORY",
            "--profile",
            "optane-200",
        ],
        dram_mib: 64,
        tier: Some("pmem"),
        tier_mib: 512,
        keeps: true,
        evicts: false,
    },
    Setting {
        name: "bonsai",
        speaks: Speaks::Redis,
        options: &[
            "--engine",
            "bonsai",
            "--dram",
            "64MiB",
            "--pmem",
            "512MiB@MEMORY",
            "--profile",
            "optane-200",
        ],
        dram_mib: 64,
        tier: Some("pmem"),
        tier_mib: 512,
        keeps: true,
        evicts: false,
    },
    Setting {
        name: "dram",
        speaks: Speaks::Redis,
        options: &["--engine", "dram", "--dram", "256MiB"],
        dram_mib: 256,
        tier: None,
        tier_mib: 192,
        keeps: false,
        evicts: false,
    },
    Setting {
        name: "memcached",
        speaks: Speaks::Memcached,
        options: &["-m", "128", "-I", "4m", "-u", "root"],
        dram_mib: 128,
        tier: None,
        tier_mib: 128,
        keeps: false,
        evicts: true,
    },
];

impl Setting {
    /// Its options, with this directory in the place of emulated memory.
    pub fn options(&self, memory: &std::path::Path) -> Vec<String> {
        let memory = memory.display().to_string();
        self.options.iter().map(|option| option.replace("MEMORY", &memory)).collect()
    }
}
