//! Slots with texts of fences that are too long for a node, and whose they are.

use std::collections::HashMap;

/// See the module.
#[derive(Default)]
pub struct Texts {
    owners: HashMap<u32, u32>,
    of_nodes: HashMap<u32, Vec<u32>>,
}

impl Texts {
    /// The slot of the node whose fence has a part here, if that is one.
    pub fn owner(&self, slot: u32) -> Option<u32> {
        self.owners.get(&slot).copied()
    }
    /// A node's fence has its text in these slots.
    pub fn add(&mut self, node: u32, texts: Vec<u32>) {
        if !texts.is_empty() {
            self.owners.extend(texts.iter().map(|text| (*text, node)));
            self.of_nodes.insert(node, texts);
        }
    }
    /// A node is gone; the slots of its fence's text.
    pub fn remove(&mut self, node: u32) -> Vec<u32> {
        if self.of_nodes.is_empty() {
            return Vec::new();
        }
        let texts = self.of_nodes.remove(&node).unwrap_or_default();
        for text in &texts {
            self.owners.remove(text);
        }
        texts
    }
    /// DRAM that it takes, about.
    pub fn dram_bytes(&self) -> u64 {
        (self.owners.capacity() * 8 + self.of_nodes.capacity() * 32 + self.owners.len() * 4) as u64
    }
}
