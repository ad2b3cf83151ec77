//! `--nodes`: NUMA nodes, a number or `auto`.

use std::str::FromStr;

/// On how many NUMA nodes a new store's places are; `None`: as the machine says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NumaNodes(pub Option<u32>);

impl FromStr for NumaNodes {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self(None)),
            _ => match text.parse() {
                Ok(nodes) if nodes > 0 => Ok(Self(Some(nodes))),
                _ => Err(format!("{text:?}: expected auto, or a number of NUMA nodes such as 2")),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_auto() {
        assert_eq!("auto".parse(), Ok(NumaNodes(None)));
        assert_eq!("2".parse(), Ok(NumaNodes(Some(2))));
        for text in ["0", "", "two", "-1"] {
            assert!(text.parse::<NumaNodes>().unwrap_err().contains("expected auto, or a number"), "{text}");
        }
    }
}
