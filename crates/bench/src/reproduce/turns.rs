//! Jobs that are timed, in turns: what else the machine does meanwhile is everybody's.

use super::{Settings, each};

/// What each job gives in so many runs at most, each run with another seed.
///
/// # Errors
/// The first job's that failed.
pub fn in_turns<J: Sync, O: Clone + Send>(
    id: &str,
    settings: &Settings,
    runs_max: usize,
    jobs: &[J],
    run: impl Fn(&J, u64) -> anyhow::Result<O> + Sync,
) -> anyhow::Result<Vec<Vec<O>>> {
    let seeds = settings.seeds().take(runs_max);
    let items: Vec<(&J, u64)> = seeds.flat_map(|seed| jobs.iter().map(move |job| (job, seed))).collect();
    // What is timed has the machine for itself.
    let found = each(id, 1, &items, |(job, seed)| run(job, *seed))?;
    Ok((0..jobs.len()).map(|i| found.iter().skip(i).step_by(jobs.len()).cloned().collect()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_job_has_its_runs_in_the_order_of_their_seeds() {
        let settings = Settings { scale: 1.0, runs: 5, seed: 7, threads: 4 };
        let found = in_turns("", &settings, 3, &[100, 200], |job, seed| Ok(job + seed)).unwrap();
        assert_eq!(found, [[107, 108, 109], [207, 208, 209]]);
    }
}
