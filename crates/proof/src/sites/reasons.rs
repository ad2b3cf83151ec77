//! Sites whose absence no crash image can show, and why they stay.

use terrace_media_sim::SiteKind;
use terrace_testkit::sweep::MediaKind;

/// Every engine.
const ALL: &[&str] = &[];
/// The two that keep their records in their log.
const SCM: &[&str] = &["scmkv", "bonsai"];

/// One of them.
pub(super) struct Reason {
    /// The engines whose histories don't show it; none for all.
    pub engines: &'static [&'static str],
    /// The site's name. Where it ends with a space or a slash, all calls whose names begin so, of those that no history reaches.
    pub site: &'static str,
    /// Which of what it does, and where; `None` for all.
    pub kind: Option<SiteKind>,
    pub media: Option<MediaKind>,
    pub why: &'static str,
}

const COVERED: &str = "every session syncs the extents of a group before it writes the group: what is left for this one are \
                       extents of operations that were refused afterwards, which nothing describes";
const REPAIR: &str = "part of `terrace check --repair`, which runs on a damaged store that nobody uses: what a crash takes \
                      of it is the damage that was there before, and the next run does it again";
const HEADER: &str = "recovery takes up an extent block whose header is gone by the descriptions of its pieces; the header tells \
                      `terrace check`, and recovery when the block is freed by half, what the block is";
const SAME_DEVICE: &str = "without a log nothing is freed before all pages are flushed, and the sync of that covers the manifest \
                           on the same device; what is left is a moment that these histories do not meet (on byte-addressable \
                           media, where each thread has its own fences, they do)";
const ENDED: &str = "the manifest that was stored before says that nothing in the log counts; the sync only spares the next \
                     opening the reading of it";
const REPEATED: &str = "nothing is stored between this fence and the next one of the same thread, so that one at the end of the \
                        opening's reading would do; kept with what it fences, so that no reader has to know of the others";

const AS_BEFORE: &str = "a header whose copy is left counts, so that until the copy is gone too nothing has changed; the fence behind \
                         the next store covers both";
const AT_REST: &str = "it is there for a header's line that goes bad at rest, which the damage tests of the log and rotten images show; a \
                       crash leaves the header itself";

const TOLD_BY_ROT: &str = "an opening's clearing of other copies comes after it, and both are durable before anything is answered: what it orders \
                           is told from rot alone, in the tests `rot::after_opening`";
const LOSES_AGAIN: &str = "what it clears is whole, trusted and no newer than what was adopted, so that it loses again where a crash keeps it; the manifest that \
                           ends the opening is synced behind it. What is left is a slot that is used again while the log is restored, in a store that has \
                           no room; these histories do not meet it";

const CUT_BY_ROUNDS: &str = "the log of `tac` is cut as far as rounds have been retired, whatever the stored manifest says: this save is for \
                             engines whose log waits for it";

const SELF_KEPT: &str = "it is for engines without a log, whose deleted keys leave no version on the medium: the heap's own crash sweep shows it";

const NO_SNAPSHOT: &str = "this engine saves no snapshots";

impl Reason {
    /// Whether it holds for an engine.
    pub(super) fn is_of(&self, engine: &str) -> bool {
        self.engines.is_empty() || self.engines.contains(&engine)
    }
    /// Whether it speaks of this site.
    pub(super) fn explains(&self, site: &str, kind: SiteKind, media: MediaKind) -> bool {
        self.site == site
            && self.kind.is_none_or(|only| only == kind)
            && self.media.is_none_or(|only| only == media)
    }
    /// Whether it says why no history reaches a call.
    pub(super) fn covers(&self, call: &str) -> bool {
        self.site == call || self.site.ends_with([' ', '/']) && call.starts_with(self.site)
    }
    /// The reason why no history of an engine reaches a call: its own, or one for all engines.
    pub(super) fn of_call(engine: &str, call: &str) -> Option<usize> {
        let of = |is_own: bool| {
            let is_it = |reason: &Reason| reason.engines.is_empty() != is_own && reason.is_of(engine);
            REASONS.iter().position(|reason| is_it(reason) && reason.covers(call))
        };
        of(true).or_else(|| of(false))
    }
}

const MADE_AGAIN: &str = "it makes a new store known, which is made again if that is cut off";
const FILLED_NEXT: &str = "in these histories one thread does all steps, and the first fill that follows fences for it; where another thread \
                           fills, it would be missing: a test in `crates/pmem-slots/src/sweep.rs` leaves it out and sees that";
const THROUGH_MEDIUM: &str = "it calls `pmem-slots/medium.rs`, where what it does is a site";

const FLUSH_IN_BETWEEN: &str = "pages are found without it; what a crash takes is a flush or an exchange whose entry is cut from the log by the very next step, \
     with no other save in between: one history in a thousand meets that, more than this search has";

const ONE_SIZE: &str = "this engine's tier keeps the size that it was made with";

const LENGTH_STAYS: &str = "simulated media keep their new length through a crash, so that here the sync of the manifest that names it is enough; a file may not";
const CUT_AGAIN: &str =
    "what a crash leaves behind the end nobody looks at, and the next opening cuts it off";

/// A site of tiers that change their sizes.
const fn of_resizing(site: &'static str) -> Reason {
    Reason { engines: &["hetermm"], site, kind: None, media: None, why: ONE_SIZE }
}

/// A site that only engine `tac` has, on both media or where tiers change their sizes.
const fn of_tac(site: &'static str, why: &'static str) -> Reason {
    Reason { engines: &["tac"], site, kind: None, media: None, why }
}

const BLOCK_MEDIA: &str = "on block media alone: this engine keeps its store in byte-addressable memory";
const THROUGH_SCM: &str = "it calls a function of `space-scm-log` whose accesses are sites themselves";
const READ_BY_CLEANING: &str = "what it stores is read by cleaning alone, long after: the test `parts_are_known_by_their_heads_after_power_was_lost` \
                                shows it, and the library of planted bugs leaves it out";
const OF_DEAD_PROCESSES: &str = "it makes safe what a dead process left in caches, before a page is freed: two tests of `space-scm-log` stage that, and \
                                 the library of planted bugs leaves it out";
const BEFORE_THE_LOCK: &str = "the fence of the edit that follows covers it; here the key is not locked while a long copy becomes durable";
const CREATION: &str = "the fences of what is made next cover it, before the manifest makes the store known";
const STUDY: &str = "part of a study of what a look-up costs, which makes a table that no store has";
const OF_GROWTH: &str =
    "of a store that has grown: the histories of `scmkv-grown` and `bonsai-grown` reach it";
const NO_CRASH_HERE: &str = "an opening that finds no page for its table does it, which these histories do not meet: the test \
                             `a_store_whose_pages_deletes_have_taken_is_opened_again` does";

const SAFE_AT_OPENING: &str =
    "it does nothing under this engine: an opening makes all nodes safe that it finds";
const ROOT_SAYS_SO: &str = "the copy that it takes is safe already, and says the same; the fence at the end of the opening's reading covers the \
                            other one before the next root is stored";
const MENDED_AGAIN: &str = "it mends what went bad at rest: what a crash takes of it is the damage that was there before, and the next opening \
                            mends it again";
const TOLD_BY_KEYS: &str = "it mends the text of a fence that went bad at rest; the test \
                            `the_text_of_a_fence_that_was_made_anew_outlives_the_keys_that_told_it` shows it";
const OF_A_LOST_LINE: &str = "after a crash the word that follows is enough, which says in the same line that there is no node; it is there for \
                              a slot whose first line goes bad at rest: two tests in `let_go.rs` of `space-scm-log` lose power and those lines";
const NUMBER_OF_NODES: &str = "asked for where a slot reads as zeros alone, which no crash leaves: \
                               `whatever_a_crash_leaves_only_nodes_are_missed` clears slots after crashes";
const OF_ZEROS: &str = "of a slot that reads as zeros, which no crash leaves; where power takes it the next opening finds zeros again";
const NEWER_FIRST: &str = "where a crash has left no two copies of a node nothing is stored between this fence and the next one: the test \
                           `nodes_are_let_go_once_those_that_have_taken_their_place_are_safe` has two";
const OF_TWO_COPIES: &str = "a crash has left two copies of a node: the older one is to be gone before its slot has another, which these \
                             histories do not meet. Where nothing is older nothing is left to cover";
const NODES_STAY: &str = "part of `terrace check --repair`: cut off without it, that would bring back a node that has ended, or end one that has \
                          not. The test `nodes_that_have_ended_stay_gone_while_a_repair_gives_them_up` shows it";
const COUNTED_ANEW: &str = "part of `terrace check --repair`: counts would stay wrong after one that was cut off. The test \
                            `a_repair_that_a_crash_cuts_off_is_done_again` shows it";
const OF_DEAD_OPENINGS: &str = "part of `terrace check --repair`: it makes safe what an opening that died had taken back of ends, and left in \
                                caches; no test stages a repair and a power cut behind that";
const PARTS_OF_NODES: &str = "what it makes safe is read by cleaning alone, long after: the test \
                              `parts_that_nodes_lead_to_are_known_by_their_heads_after_power_was_lost` shows it";
const IN_THE_SAME_LINE: &str = "nodes of eight have their fingerprints in the line of the commit word, whose flush covers them: the test \
                                `bonsai_5_a_crash_within_an_update_leaves_a_long_node_whole` has one of forty";
const OF_LONG_FENCES: &str = "of fences that are too long for a node: the test \
                              `texts_of_long_fences_are_safe_before_their_nodes_count` has those";

const THROUGH_HEAP: &str = "it calls a function of `space-heap` whose accesses are sites themselves";
const SAFE_ALREADY: &str =
    "a heap's `sync` has nothing to do: what a step stores is durable when the step returns";
const NO_LOG: &str = "this engine has no log";
const WITH_INDEX: &str = "of engine `heap-persistent`, which keeps its index in the heap";
const OF_OBJECTS: &str = "of heaps with `--heap object`: the histories of `heap-object` reach it";
const LONG_ALREADY: &str = "a simulated region is as long from the start as it may become; `crates/terrace/tests/resize` \
                            grows files";
const OF_PARTS: &str = "what it stores is read by who frees the value, for whom a part without it is lost until the next \
                        opening, and by `terrace check`: the test \
                        `a_record_that_counts_has_all_parts_of_its_value_whatever_a_crash_leaves` shows it, and the \
                        library of planted bugs leaves it out";
const SAME_LINE: &str = "the part itself begins in the same line: streaming that takes the head along, and one fence \
                         covers both";
const FREED_NEXT: &str =
    "the fence of the freeing that follows covers it, of the same thread, before anything is answered";
const OF_ROT: &str = "a dying record that has its hash counts like any other: it is there for a hash that goes bad at rest \
                      and then looks like the version of a step. The test \
                      `a_record_that_a_step_would_have_removed_is_not_dying_after_an_opening` shows that, and the library \
                      of planted bugs leaves it out";
const WORD_FIRST: &str = "the record is lost where its new word survives and its hash does not, in a chunk that a run names: \
                          the test `a_record_that_a_step_would_have_removed_stays_however_often_power_is_lost` stages \
                          that, and the library of planted bugs leaves it out";
const ONE_READER: &str = "in these histories one thread reads, and its next fence is near; the test \
                          `what_a_thread_of_an_opening_has_read_is_safe` has two, and the library of planted bugs leaves \
                          it out";
const BEGUN_ANEW: &str = "what a crash brings back behind the end nobody looks at, and who makes the heap longer again \
                          begins each page anew";
const READ_NEXT: &str = "the opening that makes the heap reads each header next, and makes it safe once more, before a \
                         manifest makes the store known";

/// A site that only engine `heap-hybrid` has, or does not reach.
const fn of_heap(site: &'static str, kind: Option<SiteKind>, why: &'static str) -> Reason {
    Reason { engines: &["heap-hybrid"], site, kind, media: None, why }
}

/// A site of what engines `scmkv` and `bonsai` share, or that neither reaches.
const fn of_scm(site: &'static str, kind: Option<SiteKind>, why: &'static str) -> Reason {
    Reason { engines: SCM, site, kind, media: None, why }
}

/// A site that only engine `scmkv` has, or does not reach.
const fn of_scmkv(site: &'static str, kind: Option<SiteKind>, why: &'static str) -> Reason {
    Reason { engines: &["scmkv"], site, kind, media: None, why }
}

/// A site that only engine `bonsai` has, or does not reach.
const fn of_bonsai(site: &'static str, kind: Option<SiteKind>, why: &'static str) -> Reason {
    Reason { engines: &["bonsai"], site, kind, media: None, why }
}

/// A reason that matches no site, or one that was caught, is an error.
pub(super) const REASONS: &[Reason] = &[
    Reason {
        engines: &["tac"],
        site: "engine/machine.rs floor_step save_manifest 2",
        kind: None,
        media: Some(MediaKind::Block),
        why: CUT_BY_ROUNDS,
    },
    Reason {
        engines: &["hetermm"],
        site: "engine/machine.rs floor_step save_manifest 2",
        kind: Some(SiteKind::Sync),
        media: Some(MediaKind::Block),
        why: FLUSH_IN_BETWEEN,
    },
    Reason {
        engines: ALL,
        site: "engine/core/flush.rs begin_generation save_manifest",
        kind: None,
        media: Some(MediaKind::Block),
        why: SAME_DEVICE,
    },
    Reason {
        engines: ALL,
        site: "blocks/settle.rs clear_unadopted sync",
        kind: None,
        media: None,
        why: LOSES_AGAIN,
    },
    Reason {
        engines: ALL,
        site: "engine/recover.rs open save_manifest 1",
        kind: None,
        media: Some(MediaKind::Block),
        why: TOLD_BY_ROT,
    },
    Reason {
        engines: ALL,
        site: "blocks/extent.rs take_extent_block sync",
        kind: None,
        media: None,
        why: HEADER,
    },
    Reason {
        engines: ALL,
        site: "engine/machine.rs sync_step sync 1",
        kind: None,
        media: None,
        why: COVERED,
    },
    Reason { engines: ALL, site: "engine/machine.rs close sync 1", kind: None, media: None, why: COVERED },
    Reason { engines: ALL, site: "engine/machine.rs close sync 3", kind: None, media: None, why: ENDED },
    Reason {
        engines: ALL,
        site: "log/log.rs create append 1",
        kind: Some(SiteKind::Fence),
        media: Some(MediaKind::Byte),
        why: AS_BEFORE,
    },
    Reason {
        engines: ALL,
        site: "log/log.rs clear_header overwrite 1",
        kind: Some(SiteKind::Fence),
        media: Some(MediaKind::Byte),
        why: AS_BEFORE,
    },
    Reason {
        engines: ALL,
        site: "log/log.rs reclaim overwrite",
        kind: None,
        media: None,
        why: "on block media alone, where an overwrite makes nothing durable: the sync that follows does",
    },
    Reason { engines: ALL, site: "log/open.rs erase overwrite 1", kind: None, media: None, why: AT_REST },
    Reason {
        engines: ALL,
        site: "log/writer.rs write_copy overwrite",
        kind: None,
        media: Some(MediaKind::Byte),
        why: AT_REST,
    },
    Reason {
        engines: ALL,
        site: "log/verify.rs cut_damage write_super",
        kind: None,
        media: None,
        why: REPAIR,
    },
    Reason { engines: ALL, site: "log/verify.rs cut_damage overwrite", kind: None, media: None, why: REPAIR },
    Reason { engines: ALL, site: "log/verify.rs cut_damage sync", kind: None, media: None, why: REPAIR },
    Reason {
        engines: ALL,
        site: "blocks/inspect.rs give_up clear_words",
        kind: None,
        media: None,
        why: REPAIR,
    },
    Reason { engines: ALL, site: "blocks/inspect.rs give_up sync", kind: None, media: None, why: REPAIR },
    Reason {
        engines: ALL,
        site: "blocks/inspect.rs give_up_snapshot write",
        kind: None,
        media: None,
        why: REPAIR,
    },
    Reason {
        engines: ALL,
        site: "blocks/inspect.rs give_up_snapshot sync",
        kind: None,
        media: None,
        why: REPAIR,
    },
    Reason {
        engines: ALL,
        site: "engine/machine.rs keep_below_floor save_manifest",
        kind: None,
        media: None,
        why: SELF_KEPT,
    },
    Reason { engines: ALL, site: "blocks/inspect.rs write write", kind: None, media: None, why: REPAIR },
    Reason { engines: ALL, site: "blocks/inspect.rs write sync", kind: None, media: None, why: REPAIR },
    Reason {
        engines: ALL,
        site: "log/open.rs secure secure 1",
        kind: Some(SiteKind::Fence),
        media: Some(MediaKind::Byte),
        why: REPEATED,
    },
    Reason {
        engines: ALL,
        site: "log/open.rs secure secure 2",
        kind: Some(SiteKind::Fence),
        media: Some(MediaKind::Byte),
        why: REPEATED,
    },
    Reason {
        engines: ALL,
        site: "log/open.rs secure secure 3",
        kind: Some(SiteKind::Fence),
        media: Some(MediaKind::Byte),
        why: REPEATED,
    },
    Reason {
        engines: ALL,
        site: "blocks/manifest_copies.rs secure_found sync",
        kind: Some(SiteKind::Fence),
        media: Some(MediaKind::Byte),
        why: REPEATED,
    },
    Reason {
        engines: ALL,
        site: "log/open.rs open write_super",
        kind: Some(SiteKind::Fence),
        media: Some(MediaKind::Byte),
        why: REPEATED,
    },
    of_tac("pmem-slots/format.rs format fence 3", FILLED_NEXT),
    of_tac("pmem-slots/medium.rs blank write_nt", MADE_AGAIN),
    of_tac("pmem-slots/scan.rs scan secure 1", THROUGH_MEDIUM),
    of_tac("pmem-slots/scan.rs scan secure 2", THROUGH_MEDIUM),
    of_tac("pmem-slots/scan.rs scan fence", THROUGH_MEDIUM),
    of_tac("pmem-slots/slab.rs make fence", THROUGH_MEDIUM),
    of_resizing("blocks/size.rs grow resize"),
    of_resizing("blocks/size.rs cut resize"),
    of_resizing("blocks/size.rs grow sync"),
    of_resizing("blocks/size.rs cut sync"),
    of_resizing("blocks/size.rs store_size save_manifest"),
    of_tac("blocks/size.rs grow resize", LENGTH_STAYS),
    of_tac("blocks/size.rs cut resize", CUT_AGAIN),
    of_tac("pmem-slots/medium.rs resize resize", CUT_AGAIN),
    of_tac("blocks/size.rs grow sync", LENGTH_STAYS),
    of_tac("blocks/size.rs cut sync", CUT_AGAIN),
    of_scm("space-scm-log/medium.rs secure_lines ", None, OF_GROWTH),
    of_scm("space-scm-log/medium.rs grow ", None, OF_GROWTH),
    of_scm("space-scm-log/medium.rs make_page ", None, OF_GROWTH),
    of_scm("log/log.rs create sync 1", None, BLOCK_MEDIA),
    of_scm("log/log.rs create sync 2", None, BLOCK_MEDIA),
    of_scm("log/log.rs reclaim sync 1", None, BLOCK_MEDIA),
    of_scm("log/log.rs reclaim sync 2", None, BLOCK_MEDIA),
    of_scm("log/open.rs open sync", None, BLOCK_MEDIA),
    of_scm("log/open.rs erase sync", None, BLOCK_MEDIA),
    of_scm("engine/core/commit.rs write_log sync", None, BLOCK_MEDIA),
    of_scm("engine/machine.rs sync_step sync 2", None, BLOCK_MEDIA),
    of_scm("engine/machine.rs close sync 2", None, BLOCK_MEDIA),
    of_scm("engine/machine.rs time_step save_manifest", None, THROUGH_SCM),
    of_scm("engine/machine.rs floor_step save_manifest 1", None, THROUGH_SCM),
    of_scm("engine/machine.rs floor_step save_manifest 2", None, THROUGH_SCM),
    of_scm("engine/machine.rs close save_manifest", None, THROUGH_SCM),
    of_scm("engine/recover.rs open save_manifest 2", None, THROUGH_SCM),
    of_scmkv("space-scm-log/clean.rs secure_step secure", None, THROUGH_SCM),
    of_scm("engine/recover.rs give_up_snapshot save_manifest", None, NO_SNAPSHOT),
    of_scmkv("space-scm-log/absent.rs new write_nt", None, STUDY),
    of_scmkv("space-scm-log/absent.rs new fence", None, STUDY),
    of_scmkv("space-scm-log/repair.rs repair save_page_line", None, REPAIR),
    of_scmkv("space-scm-log/repair.rs mend_buckets save", None, REPAIR),
    of_scm("space-scm-log/clean.rs clean_alone leave", None, NO_CRASH_HERE),
    of_scm("space-scm-log/apply.rs store_owners flush", Some(SiteKind::Flush), READ_BY_CLEANING),
    of_scm("space-scm-log/large.rs write_extent write_nt", Some(SiteKind::Stream), READ_BY_CLEANING),
    of_scm("space-scm-log/clean.rs move_value fence", Some(SiteKind::Fence), BEFORE_THE_LOCK),
    of_scm("space-scm-log/space.rs make change", Some(SiteKind::Fence), CREATION),
    of_scm("space-scm-log/space.rs make save_root", Some(SiteKind::Fence), CREATION),
    of_scmkv("space-scm-log/table.rs format fence", Some(SiteKind::Fence), CREATION),
    of_scmkv("space-scm-log/table.rs secure_words fence", Some(SiteKind::Fence), OF_DEAD_PROCESSES),
    of_scmkv("space-scm-log/table.rs secure_words flush", Some(SiteKind::Flush), OF_DEAD_PROCESSES),
    of_bonsai("space-scm-log/clean.rs secure_step secure", None, SAFE_AT_OPENING),
    of_bonsai("space-scm-log/nodes/reopen.rs agree_on_root fence", Some(SiteKind::Fence), ROOT_SAYS_SO),
    of_bonsai("space-scm-log/nodes/reopen.rs agree write_nt 1", None, MENDED_AGAIN),
    of_bonsai("space-scm-log/nodes/reopen.rs agree write_nt 2", None, TOLD_BY_KEYS),
    of_bonsai("space-scm-log/nodes/reopen.rs mend_fps ", None, MENDED_AGAIN),
    of_bonsai("space-scm-log/nodes/reopen.rs reopen_nodes fence 1", Some(SiteKind::Fence), NEWER_FIRST),
    of_bonsai("space-scm-log/nodes/reopen.rs reopen_nodes fence 2", Some(SiteKind::Fence), OF_TWO_COPIES),
    of_bonsai("space-scm-log/nodes/reopen.rs note_nodes write_nt", Some(SiteKind::Stream), NUMBER_OF_NODES),
    of_bonsai("space-scm-log/nodes/reopen.rs reopen_nodes uncommit 2", None, OF_ZEROS),
    of_bonsai("space-scm-log/nodes/repair.rs count_anew flush", None, OF_DEAD_OPENINGS),
    of_bonsai("space-scm-log/nodes/repair.rs count_anew unend", None, NODES_STAY),
    of_bonsai("space-scm-log/nodes/repair.rs count_anew fence", None, NODES_STAY),
    of_bonsai("space-scm-log/nodes/repair.rs count_anew save_root", None, COUNTED_ANEW),
    of_bonsai("space-scm-log/nodes/repair.rs free uncommit", None, NODES_STAY),
    of_bonsai("space-scm-log/nodes/repair.rs free fence 1", None, NODES_STAY),
    of_bonsai("space-scm-log/nodes/repair.rs ", None, REPAIR),
    of_bonsai("space-scm-log/nodes/store.rs remove store_end", Some(SiteKind::Flush), OF_A_LOST_LINE),
    of_bonsai("space-scm-log/nodes/store.rs store_nodes end_with 2", Some(SiteKind::Flush), OF_A_LOST_LINE),
    of_bonsai("space-scm-log/nodes/store.rs store_nodes fence 3", Some(SiteKind::Fence), PARTS_OF_NODES),
    of_bonsai("space-scm-log/nodes/store.rs write_fps flush", Some(SiteKind::Flush), IN_THE_SAME_LINE),
    of_bonsai("space-scm-log/nodes/store.rs write_node write_nt 2", None, OF_LONG_FENCES),
    of_heap("engine/core/commit.rs write_log sync", None, NO_LOG),
    of_heap("engine/core/flush.rs begin_generation save_manifest", None, THROUGH_HEAP),
    of_heap("engine/machine.rs sync_step sync 1", None, SAFE_ALREADY),
    of_heap("engine/machine.rs sync_step sync 2", None, NO_LOG),
    of_heap("engine/machine.rs time_step save_manifest", None, THROUGH_HEAP),
    of_heap("engine/machine.rs keep_below_floor save_manifest", None, THROUGH_HEAP),
    of_heap("engine/machine.rs floor_step save_manifest 1", None, THROUGH_HEAP),
    of_heap("engine/machine.rs floor_step save_manifest 2", None, THROUGH_HEAP),
    of_heap("engine/machine.rs close sync 1", None, SAFE_ALREADY),
    of_heap("engine/machine.rs close sync 2", None, NO_LOG),
    of_heap("engine/machine.rs close sync 3", None, NO_LOG),
    of_heap("engine/machine.rs close save_manifest", None, THROUGH_HEAP),
    of_heap("engine/recover.rs open save_manifest 1", None, THROUGH_HEAP),
    of_heap("engine/recover.rs open save_manifest 2", None, THROUGH_HEAP),
    of_heap("engine/recover.rs give_up_snapshot save_manifest", None, NO_SNAPSHOT),
    of_heap("space-heap/recover.rs save_manifest save_manifest", None, THROUGH_HEAP),
    of_heap("space-heap/resize.rs store_size save_manifest", None, THROUGH_HEAP),
    of_heap("space-heap/resize.rs grow resize", None, LONG_ALREADY),
    of_heap("space-heap/inspect.rs ", None, REPAIR),
    of_heap("space-heap/inspect_map.rs ", None, REPAIR),
    of_heap("space-heap/overlay.rs ", None, REPAIR),
    of_heap("space-heap/learn.rs ", None, WITH_INDEX),
    of_heap("space-heap/recover.rs reopen_with ", None, WITH_INDEX),
    of_heap("space-heap/space.rs put ", None, WITH_INDEX),
    of_heap("space-heap/table/", None, WITH_INDEX),
    of_heap("space-heap/extents.rs ", None, OF_OBJECTS),
    of_heap("space-heap/map.rs ", None, OF_OBJECTS),
    of_heap("space-heap/objects.rs ", None, OF_OBJECTS),
    of_heap("space-heap/recover.rs learn_map ", None, OF_OBJECTS),
    of_heap("space-heap/large.rs write_parts fence 2", Some(SiteKind::Fence), OF_PARTS),
    of_heap("space-heap/large.rs write_parts store_word", Some(SiteKind::Flush), OF_PARTS),
    of_heap("space-heap/large.rs write_parts write_nt 1", Some(SiteKind::Stream), SAME_LINE),
    of_heap("space-heap/recover.rs clear_torn fence 2", Some(SiteKind::Fence), FREED_NEXT),
    of_heap("space-heap/recover.rs clear_torn store_word", Some(SiteKind::Flush), OF_ROT),
    of_heap("space-heap/recover.rs store_head flush", Some(SiteKind::Flush), WORD_FIRST),
    of_heap("space-heap/recover.rs each_page fence", Some(SiteKind::Fence), ONE_READER),
    of_heap("space-heap/resize.rs cut resize", Some(SiteKind::Stream), BEGUN_ANEW),
    of_heap("space-heap/space.rs make fence", Some(SiteKind::Fence), READ_NEXT),
];
