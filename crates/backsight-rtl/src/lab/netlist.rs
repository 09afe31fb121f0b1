//! What a synthesised netlist is made of, and its longest path, from the BLIF that yosys writes.

use std::collections::HashMap;

/// The cells of a netlist that take room, and the longest path between registers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Netlist {
    /// LUTs that are logic.
    pub luts: u64,
    /// LUTs that are memory or shift registers.
    pub memory_luts: u64,
    /// Flip-flops.
    pub flip_flops: u64,
    /// Block RAMs of 36 Kbit; one of 18 Kbit is half of it.
    pub block_rams: f64,
    /// LUTs on the longest path between registers, inputs and outputs; a carry chain is one.
    pub depth: u32,
}

/// What passes through a cell.
enum Cell {
    /// From every input to the output.
    Logic,
    /// From these inputs only: an address of a memory that is read at once.
    Memory,
    /// Nothing: a register.
    Register,
}

impl Netlist {
    /// LUTs in all, whatever they are used as.
    pub const fn all_luts(&self) -> u64 {
        self.luts + self.memory_luts
    }

    /// Reads a netlist of a single module. Cells of which nothing is known count as logic that takes no LUT.
    pub fn read(blif: &str) -> Self {
        let mut netlist = Self::default();
        let mut graph = Graph::default();
        let mut lines = blif.lines().peekable();
        while let Some(line) = lines.next() {
            let mut words = line.split_ascii_whitespace();
            match words.next() {
                Some(".names") => {
                    let nets: Vec<&str> = words.collect();
                    let Some((&output, inputs)) = nets.split_last() else { continue };
                    // One input whose value is passed on is a wire.
                    let is_wire = inputs.len() == 1 && lines.peek() == Some(&"1 1");
                    let cost = u32::from(!is_wire && !inputs.is_empty());
                    netlist.luts += u64::from(cost);
                    graph.add(inputs.iter().map(|&net| (net, cost)), [output]);
                }
                Some(".latch") => netlist.flip_flops += 1,
                Some(".subckt" | ".gate") => {
                    let Some(kind) = words.next() else { continue };
                    let pins = words.filter_map(|pin| pin.split_once('='));
                    match netlist.count(kind) {
                        Cell::Register => {}
                        through => graph.cell(&through, pins),
                    }
                }
                _ => {}
            }
        }
        netlist.depth = graph.depth();
        netlist
    }

    /// Counts a cell.
    fn count(&mut self, kind: &str) -> Cell {
        let memory = |luts: u64, through: Cell, netlist: &mut Self| {
            netlist.memory_luts += luts;
            through
        };
        match kind {
            "LUT1" | "LUT2" | "LUT3" | "LUT4" | "LUT5" | "LUT6" | "INV" => {
                self.luts += 1;
                Cell::Logic
            }
            "SRL16E" | "SRLC16E" | "SRLC32E" => memory(1, Cell::Register, self),
            "RAM32X1D" | "RAM64X1D" => memory(2, Cell::Memory, self),
            "RAM32M" | "RAM64M" | "RAM128X1D" => memory(4, Cell::Memory, self),
            "RAM32M16" | "RAM64M8" | "RAM256X1D" => memory(8, Cell::Memory, self),
            "RAMB36E1" | "RAMB36E2" => {
                self.block_rams += 1.0;
                Cell::Register
            }
            "RAMB18E1" | "RAMB18E2" => {
                self.block_rams += 0.5;
                Cell::Register
            }
            _ if kind.starts_with("FD") || kind.starts_with("$_DFF") || kind.starts_with("$_SDFF") => {
                self.flip_flops += 1;
                Cell::Register
            }
            _ if kind.starts_with("$mem") => Cell::Register,
            _ => Cell::Logic,
        }
    }
}

/// Which net depends on which, at what cost.
#[derive(Default)]
struct Graph<'a> {
    names: HashMap<&'a str, usize>,
    /// Of each net: those that it depends on, and the LUTs between.
    drivers: Vec<Vec<(usize, u32)>>,
}

impl<'a> Graph<'a> {
    fn net(&mut self, name: &'a str) -> usize {
        let next = self.drivers.len();
        let number = *self.names.entry(name).or_insert(next);
        if number == next {
            self.drivers.push(Vec::new());
        }
        number
    }

    fn add(
        &mut self,
        inputs: impl Iterator<Item = (&'a str, u32)>,
        outputs: impl IntoIterator<Item = &'a str>,
    ) {
        let inputs: Vec<_> = inputs.map(|(name, cost)| (self.net(name), cost)).collect();
        for output in outputs {
            let output = self.net(output);
            self.drivers[output].extend(&inputs);
        }
    }

    /// A cell by its pins. Names of outputs are the same in all cells of a family.
    fn cell(&mut self, through: &Cell, pins: impl Iterator<Item = (&'a str, &'a str)>) {
        let (mut inputs, mut outputs) = (Vec::new(), Vec::new());
        for (pin, net) in pins {
            let is_output = pin.starts_with('O')
                || pin.starts_with("CO")
                || pin.starts_with("DO")
                || pin.starts_with("DPO")
                || pin.starts_with("SPO");
            let reads = match through {
                Cell::Logic => true,
                Cell::Memory => pin.starts_with("ADDR") || pin.starts_with("DPRA") || pin.starts_with('A'),
                Cell::Register => false,
            };
            if is_output {
                outputs.push(net);
            } else if reads {
                inputs.push((net, u32::from(pin != "CI")));
            }
        }
        self.add(inputs.into_iter(), outputs);
    }

    /// The most LUTs on a way. A loop is not gone through twice.
    fn depth(&self) -> u32 {
        #[derive(Clone, Copy)]
        enum Seen {
            No,
            Entered,
            Done(u32),
        }
        let mut seen = vec![Seen::No; self.drivers.len()];
        let mut most = 0;
        for start in 0..self.drivers.len() {
            let mut stack = vec![start];
            while let Some(&net) = stack.last() {
                match seen[net] {
                    Seen::No => {
                        seen[net] = Seen::Entered;
                        let open = self.drivers[net].iter().map(|&(driver, _)| driver);
                        stack.extend(open.filter(|&driver| matches!(seen[driver], Seen::No)));
                    }
                    Seen::Entered => {
                        let depth = |&(driver, cost): &(usize, u32)| match seen[driver] {
                            Seen::Done(depth) => depth + cost,
                            Seen::No | Seen::Entered => cost,
                        };
                        let depth = self.drivers[net].iter().map(depth).max().unwrap_or(0);
                        seen[net] = Seen::Done(depth);
                        most = most.max(depth);
                        stack.pop();
                    }
                    Seen::Done(_) => {
                        stack.pop();
                    }
                }
            }
        }
        most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_counted_and_the_longest_path_ends_at_registers() {
        let netlist = Netlist::read(
            "\
.model top
.inputs clk a b
.outputs q
.names $false
.subckt LUT2 I0=a I1=b O=x
.subckt LUT6 I0=x I1=a I2=b I3=a I4=b I5=q O=y
.subckt FDRE C=clk CE=a D=y Q=z R=b
.subckt LUT1 I0=z O=d
.subckt SRL16E A0=a CE=a CLK=clk D=z Q=s
.subckt RAM32M16 ADDRA[0]=d DIA[0]=y WCLK=clk DOA[0]=m
.subckt LUT2 I0=m I1=s O=n
.subckt RAMB18E2 ADDRARDADDR[0]=y DOUTADOUT[0]=k
.names n q
1 1
.end
",
        );
        assert_eq!((netlist.luts, netlist.memory_luts, netlist.flip_flops), (4, 9, 1));
        assert_eq!(netlist.all_luts(), 13);
        assert!((netlist.block_rams - 0.5).abs() < f64::EPSILON);
        // z through an inverter, a memory, a LUT; then q goes into the LUT6.
        assert_eq!(netlist.depth, 4);
    }

    #[test]
    fn a_carry_chain_is_one_level_however_long() {
        let mut blif = String::from(".subckt LUT2 I0=a I1=b O=s0\n");
        for n in 0..6 {
            let next = n + 1;
            blif += &format!(".subckt CARRY8 CI=c{n} DI[0]=a S[0]=s0 CO[7]=c{next} O[0]=o{n}\n");
        }
        assert_eq!(Netlist::read(&blif).depth, 2);
    }

    #[test]
    fn logic_without_a_device_is_tables_of_names() {
        let blif = ".names a b x\n11 1\n.names x y\n0 1\n.names y q\n1 1\n.latch q z re clk 2\n.subckt $_SDFFE_PP0P_ C=clk D=x E=a Q=w R=b\n";
        let netlist = Netlist::read(blif);
        assert_eq!((netlist.luts, netlist.flip_flops, netlist.depth), (2, 2, 2));
    }

    #[test]
    fn what_is_no_netlist_has_nothing_and_a_loop_ends() {
        assert_eq!(Netlist::read("nothing of it\n.names\n.subckt\n"), Netlist::default());
        assert_eq!(Netlist::read(".names a b\n0 1\n.names b a\n0 1\n").luts, 2);
    }
}
