//! Giving answers, and comparing them with what was predicted.

use terrace_media_sim::set_actor;

use super::super::lane::{Flight, Verdict};
use super::super::ledger::{Expected, Prediction};
use super::{Driver, STEPS_MAX, Stop};

impl Driver<'_> {
    /// Gives the answers that may be given.
    pub(super) fn answer_all(&mut self) -> Result<(), Stop> {
        if let Some(issued) = self.rests_on_a_refusal() {
            return Err(self.cut(issued));
        }
        for number in 0..self.lanes.len() {
            set_actor(number as u32);
            let lane = &mut self.lanes[number];
            let flights = std::mem::take(&mut lane.flights);
            let mut answered = Vec::new();
            for flight in flights {
                let proof =
                    flight.predictions.is_some().then(|| lane.session.settled(&flight.batch)).flatten();
                match proof {
                    Some(proof) => answered.push((flight, proof)),
                    None => lane.flights.push(flight),
                }
            }
            let rest = answered.len();
            for (done, (flight, proof)) in answered.into_iter().enumerate() {
                let position = self.recorder.acknowledged(flight.issued as u64);
                let Some(predictions) = &flight.predictions else { continue };
                for (i, prediction) in predictions.iter().enumerate() {
                    match flight.compare(i, &prediction.expected, self.manner.evict, &proof) {
                        Verdict::Right(version) => {
                            for id in prediction.wrote.into_iter().chain(prediction.saw) {
                                self.ledger.acknowledge(id, position);
                            }
                            // What expired as it was stored, where nothing was, left nothing that has a version.
                            let nothing = prediction.wrote.is_none()
                                && matches!(prediction.expected, Expected::Stored(_));
                            if let Some(version) = version.filter(|_| !nothing) {
                                let writer = prediction.wrote.or(prediction.saw);
                                let told = self.ledger.learn(flight.cmds[i].key, writer, version);
                                told.map_err(|wrong| Stop::Failed(format!("without any crash: {wrong}")))?;
                            }
                        }
                        Verdict::Evicted => {
                            self.coverage.add("evicted keys missed", 1);
                            if let Some(id) = prediction.wrote {
                                self.ledger.void(id);
                            }
                        }
                        Verdict::Refused => {
                            let alone =
                                done + 1 == rest && self.lanes.iter().all(|lane| lane.flights.is_empty());
                            self.refused(&flight, prediction, alone)?;
                        }
                        Verdict::Wrong(wrong) => return Err(self.doubt(wrong)),
                    }
                }
            }
        }
        Ok(())
    }

    /// What was refused is predicted to have been done: others on its keys can't be judged by that, whoever is answered first.
    fn rests_on_a_refusal(&self) -> Option<usize> {
        let flights = self.lanes.iter().flat_map(|lane| &lane.flights);
        let known: Vec<_> = flights.filter(|flight| flight.predictions.is_some()).collect();
        let is_refused = |flight: &Flight| (0..flight.cmds.len()).any(|i| flight.batch.is_refused(i));
        let meets =
            |one: &Flight| known.iter().any(|other| !std::ptr::eq(one, *other) && other.meets(&one.cmds));
        let doubtful = known.iter().find(|flight| is_refused(flight) && meets(flight));
        doubtful.map(|flight| flight.issued)
    }

    fn refused(&mut self, flight: &Flight, prediction: &Prediction, alone: bool) -> Result<(), Stop> {
        self.coverage.add("refusals", 1);
        let alone = alone && flight.cmds.len() == 1;
        match prediction.wrote {
            Some(id) if alone && self.ledger.refuse(id) => Ok(()),
            None if alone => Ok(()),
            _ => Err(self.cut(flight.issued)),
        }
    }

    /// The process dies before it gives these answers. What was refused did nothing all the same, though it was predicted to do
    /// something; everything else was done, and must be there when the store is opened again.
    pub(super) fn refuse_unanswered(&mut self) -> Result<(), Stop> {
        let mut refused = Vec::new();
        for flight in self.lanes.iter().flat_map(|lane| &lane.flights) {
            let predictions = flight.predictions.iter().flatten().enumerate();
            let mine = predictions.filter(|(i, _)| flight.batch.is_refused(*i));
            refused.extend(mine.map(|(_, prediction)| (flight.issued, prediction.wrote)));
        }
        self.coverage.add("refusals", refused.len() as u64);
        let flights = self.lanes.iter().flat_map(|lane| &lane.flights);
        let unanswered: usize = flights.map(|flight| flight.cmds.len()).sum();
        match refused[..] {
            [] => Ok(()),
            [(_, None)] if unanswered == 1 => Ok(()),
            [(_, Some(id))] if unanswered == 1 && self.ledger.refuse(id) => Ok(()),
            [(issued, _), ..] => Err(self.cut(issued)),
        }
    }

    /// Nothing that is not answered yet counts either: it may have taken effect in part and not be predicted, or be refused too.
    fn cut(&self, position: usize) -> Stop {
        let open = self.lanes.iter().flat_map(|lane| &lane.flights).map(|flight| flight.issued);
        Stop::Cut(open.fold(position, usize::min))
    }

    /// An answer is wrong, unless it rests on what was refused in a batch that is not answered yet.
    fn doubt(&mut self, wrong: String) -> Stop {
        let Stop::Cut(first) = self.cut(usize::MAX) else { return Stop::Failed(wrong) };
        for _ in 0..STEPS_MAX {
            self.complete_all();
            for number in 0..self.lanes.len() {
                set_actor(number as u32);
                let lane = &mut self.lanes[number];
                for flight in std::mem::take(&mut lane.flights) {
                    let Some(proof) = lane.session.settled(&flight.batch) else {
                        lane.flights.push(flight);
                        continue;
                    };
                    if (0..flight.cmds.len()).any(|i| flight.is_refused(i, &proof)) {
                        return Stop::Cut(first);
                    }
                }
            }
            if self.lanes.iter().all(|lane| lane.flights.is_empty()) {
                break;
            }
            self.background();
        }
        Stop::Failed(wrong)
    }

    /// Waits for every answer.
    pub(super) fn settle(&mut self) -> Result<(), Stop> {
        for _ in 0..STEPS_MAX {
            self.complete_all();
            self.answer_all()?;
            if self.lanes.iter().all(|lane| lane.flights.is_empty()) {
                return Ok(());
            }
            self.background();
        }
        Err(Stop::Failed("answers never settle although background work goes on".into()))
    }
}
