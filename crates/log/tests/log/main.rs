//! The log on simulated media: round trips, damage, cuts, reclaim, crashes at every point, the bytes of the format.

#[cfg(test)]
mod common;
#[cfg(test)]
mod cuts;
#[cfg(test)]
mod damage;
#[cfg(test)]
mod format;
#[cfg(test)]
mod misread;
#[cfg(test)]
mod reclaim;
#[cfg(test)]
mod round_trip;
#[cfg(test)]
mod sweep;
#[cfg(test)]
mod verify;
