//! Converts a drive of DiskSim 4 into a spec on standard output.
//!
//! `cargo run -p destage-disk --example convert NAME MODEL [SEEK|-] [DISKSPECS|-]`

use destage_disk::disksim::{Source, Sources, convert};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Err(message) = run(&arguments) {
        eprintln!("{message}");
        std::process::exit(1);
    }
}

fn run(arguments: &[String]) -> Result<(), String> {
    let [name, model, rest @ ..] = arguments else {
        return Err("usage: convert NAME MODEL [SEEK|-] [DISKSPECS|-]".to_string());
    };
    let load = |file: &str| {
        std::fs::read_to_string(file).map_err(|error| format!("cannot read {file}: {error}"))
    };
    let load_given = |i: usize| {
        let file = rest.get(i).filter(|file| *file != "-");
        file.map(|file| Ok::<_, String>((file, load(file)?))).transpose()
    };
    let (text, seek, specs) = (load(model)?, load_given(0)?, load_given(1)?);
    let sources = Sources {
        model: Source { file: model, text: &text },
        seek: seek.as_ref().map(|(file, text)| Source { file, text }),
        specs: specs.as_ref().map(|(file, text)| Source { file, text }),
    };
    let spec = convert(name, sources).map_err(|error| error.to_string())?;
    print!("{}", spec.to_toml());
    Ok(())
}
