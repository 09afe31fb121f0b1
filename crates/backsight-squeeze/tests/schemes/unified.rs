//! What is executed again from its load values comes back, item by item; what cannot be, comes back all the same.

use backsight_core::{Address, Execution, Input, Isa};
use backsight_sim::{Event, Hart, Observer, Options, Simulator, Streams, Watch};
use backsight_squeeze::container::{ContainerError, Header, Reader, Writer};
use backsight_squeeze::{DataScheme, Program, Scheme};

/// Everything that a program does, and what enters it.
struct Everything {
    items: Vec<Execution>,
    first: Option<Box<Hart>>,
    /// Where a system call goes on if it just returns.
    call: Option<u64>,
}

impl Everything {
    fn registers(&mut self, hart: &Hart) {
        let integers = (0..).zip(hart.integers()).skip(1);
        let floats = (32..).zip(hart.floats().iter().copied());
        let fcsr = (4096 + 3, u64::from(hart.frm) << 5 | u64::from(hart.fflags));
        for (number, value) in integers.chain(floats).chain([fcsr]) {
            self.items.push(Execution::Input(Input::Register { number, value }));
        }
    }
}

impl Observer for Everything {
    fn execution(&mut self, item: Execution) {
        if let Execution::Instruction(retired) = item {
            self.call = (retired.opcode == 0x73).then_some(retired.next.0);
        }
        self.items.push(item);
        if matches!(item, Execution::Context(_))
            && let Some(hart) = self.first.take()
        {
            self.registers(&hart);
        }
    }

    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Written { address, bytes } => {
                self.items.extend(Input::written(address, bytes).map(Execution::Input));
            }
            Event::Cleared { address, length } => {
                self.items.push(Execution::Input(Input::Cleared { address, length }));
            }
            Event::Time(time) => self.items.push(Execution::Input(Input::Counter(time))),
            Event::Registers(hart) if self.call == Some(hart.pc) => {
                self.items.push(Execution::Input(Input::Result(hart.x(10))));
            }
            Event::Registers(hart) => self.registers(hart),
            _ => {}
        }
    }
}

fn run(name: &str, most: u64) -> (Program, Vec<Execution>) {
    let path = backsight_testing::repository().join("testdata/programs/riscv64").join(name);
    let file = std::fs::read(path).unwrap();
    let options = Options { streams: Streams::none(), instructions: most, ..Options::default() };
    let mut simulator = Simulator::load(&file, options).unwrap();
    let first = Some(Box::new(simulator.hart().clone()));
    let mut everything = Everything { items: Vec::new(), first, call: None };
    simulator.observe(Watch { accesses: true, external: true }, &mut everything);
    (Program::read(&file, 0).unwrap(), everything.items)
}

fn header(program: &Program, replay: bool) -> Header {
    Header {
        scheme: Scheme::preset("btmbp").unwrap(),
        data: DataScheme { replay, ..DataScheme::default() },
        isa: Isa::Rv64,
        program: "a".into(),
        identity: program.identity,
    }
}

fn write(program: &Program, items: &[Execution], replay: bool) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), &header(program, replay), program.sections.clone()).unwrap();
    items.iter().for_each(|item| writer.push(item).unwrap());
    writer.finish().unwrap().0
}

fn read(file: &[u8], program: &Program) -> (Vec<Execution>, Result<(), ContainerError>) {
    let mut items = Vec::new();
    let done =
        Reader::new(file, Some(program)).and_then(|mut reader| reader.read(&mut |item| items.push(item)));
    (items, done)
}

/// Is nearly all of it executed again? Threads that take turns and signals are not, and that is all that is to be said of them.
fn is_smaller(name: &str) -> bool {
    !matches!(name, "threads" | "isa")
}

#[test]
fn programs_come_back_from_their_load_values() {
    for name in ["calls", "isa", "pack", "sort", "threads", "vm"] {
        let (program, items) = run(name, 600_000);
        let file = write(&program, &items, true);
        let (back, done) = read(&file, &program);
        assert!(done.is_ok(), "{name}: {done:?}");
        let differing = (0..items.len().max(back.len())).find(|&at| items.get(at) != back.get(at));
        assert_eq!(differing, None, "{name}");
        let plain = write(&program, &items, false).len();
        assert!(file.len() < plain || !is_smaller(name), "{name}: {} and {plain} bytes", file.len());
    }
}

#[test]
fn what_does_not_follow_from_the_program_comes_back_too() {
    let (program, items) = run("sort", 400_000);
    let executed = |item: &Execution| matches!(item, Execution::Instruction(_));
    let places: Vec<_> = (0..items.len()).filter(|&at| executed(&items[at])).collect();
    for (round, at) in places.iter().step_by(places.len() / 7).enumerate() {
        let mut changed = items.clone();
        match round % 4 {
            0 => changed.insert(*at, Execution::Gap),
            1 => drop(changed.drain(*at..at + 5)),
            2 => changed.insert(*at, Execution::Thread(3)),
            _ => {
                if let Execution::Instruction(retired) = &mut changed[*at] {
                    retired.next = Address(retired.next.0 ^ 0x40);
                }
            }
        }
        let file = write(&program, &changed, true);
        let (back, done) = read(&file, &program);
        assert!(done.is_ok() && back == changed, "{round}: {done:?}");
    }
}

#[test]
fn damage_is_an_error_and_what_comes_before_it_is_right() {
    let (program, items) = run("sort", 400_000);
    let file = write(&program, &items, true);
    for at in (0..file.len()).step_by(file.len() / 23) {
        let mut damaged = file.clone();
        damaged[at] ^= 0x10;
        let (back, done) = read(&damaged, &program);
        assert!(done.is_err(), "byte {at}");
        assert!(back.len() <= items.len() && back == items[..back.len()], "byte {at}");
    }
}

#[test]
fn it_needs_the_program() {
    let (program, _) = run("sort", 10);
    let refused = Writer::new(Vec::new(), &header(&program, true), Vec::new()).err();
    assert!(matches!(refused, Some(ContainerError::Data(_))), "{refused:?}");
}
