//! The plan of the house, from the sources: which module imports which, inside each crate. No
//! circles but those named here with a reason, and only the arrows that ARCHITECTURE.md draws.
//! `make house` prints the figures; HOUSE_TREE=PATH reads another tree.

mod common;

use petgraph::algo::tarjan_scc;
use petgraph::graphmap::DiGraphMap;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use syn::visit::Visit;

/// Circles of files that stay, by one of their files, and why.
const CIRCLES: &[(&str, &str)] =
    &[("nvslog::contents", "fragments are stored by index, and contents give them out")];

/// A path inside a crate: names of modules, and perhaps of an item.
type Names = Vec<String>;

/// What one file says.
#[derive(Default)]
struct File {
    lines: usize,
    /// Paths that it names, from the crate's root.
    uses: Vec<Names>,
    /// What it exports again: under which path, and which.
    exports: Vec<(Names, Names)>,
    /// Named fields of its structs.
    structs: BTreeMap<String, usize>,
    /// Types that it implements something for.
    implements: BTreeSet<String>,
}

struct Crate {
    name: String,
    files: BTreeMap<Names, File>,
}

/// Collects what a file says; `module` is its own path.
struct Reader<'a> {
    module: &'a [String],
    file: File,
}

impl Reader<'_> {
    /// A path as it is written, from the crate's root; `None`: it is of another crate.
    fn absolute(&self, mut names: Names) -> Option<Names> {
        let mut base = self.module.to_vec();
        match names.first()?.as_str() {
            "crate" => return Some(names.split_off(1)),
            "self" => names = names.split_off(1),
            "super" => {
                while names.first().is_some_and(|name| name == "super") {
                    base.pop();
                    names = names.split_off(1);
                }
            }
            _ => return None,
        }
        base.extend(names);
        Some(base)
    }

    fn tree(&mut self, before: &[String], tree: &syn::UseTree, public: bool) {
        let with = |name: &syn::Ident| [before, &[name.to_string()]].concat();
        match tree {
            syn::UseTree::Path(path) => self.tree(&with(&path.ident), &path.tree, public),
            syn::UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.tree(before, tree, public));
            }
            syn::UseTree::Name(name) => self.import(with(&name.ident), &name.ident, public),
            syn::UseTree::Rename(name) => self.import(with(&name.ident), &name.rename, public),
            syn::UseTree::Glob(_) => self.import(before.to_vec(), &name_of_glob(), false),
        }
    }

    fn import(&mut self, path: Names, name: &syn::Ident, public: bool) {
        // An own module needs no `self`.
        let export = [self.module, &[name.to_string()]].concat();
        let own = || Some([self.module, &path].concat());
        let Some(target) = self.absolute(path.clone()).or_else(own) else { return };
        if public {
            self.file.exports.push((export, target.clone()));
        }
        self.file.uses.push(target);
    }
}

fn name_of_glob() -> syn::Ident {
    syn::Ident::new("glob", proc_macro2::Span::call_site())
}

fn is_test(attributes: &[syn::Attribute]) -> bool {
    let test = |a: &&syn::Attribute| a.path().is_ident("cfg");
    attributes.iter().filter(test).any(|attribute| {
        let syn::Meta::List(list) = &attribute.meta else { return false };
        list.tokens.to_string() == "test"
    })
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test(&item.attrs) {
            syn::visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        let public = !matches!(item.vis, syn::Visibility::Inherited);
        self.tree(&[], &item.tree, public);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Names = path.segments.iter().map(|part| part.ident.to_string()).collect();
        if names.len() > 1
            && let Some(target) = self.absolute(names)
        {
            self.file.uses.push(target);
        }
        syn::visit::visit_path(self, path);
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        if let syn::Fields::Named(fields) = &item.fields {
            self.file.structs.insert(item.ident.to_string(), fields.named.len());
        }
        syn::visit::visit_item_struct(self, item);
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if let syn::Type::Path(of) = &*item.self_ty
            && let Some(last) = of.path.segments.last()
        {
            self.file.implements.insert(last.ident.to_string());
        }
        syn::visit::visit_item_impl(self, item);
    }
}

fn tree() -> PathBuf {
    std::env::var_os("HOUSE_TREE").map_or_else(common::top, PathBuf::from)
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> =
        std::fs::read_dir(folder).expect("listed").map(|e| e.expect("an entry").path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The path of a file's module.
fn module_of(file: &Path, source: &Path) -> Names {
    let inside = file.strip_prefix(source).expect("in the crate").with_extension("");
    let mut names: Names =
        inside.iter().map(|part| part.to_str().expect("text").to_string()).collect();
    if names.last().is_some_and(|name| ["mod", "lib", "main"].contains(&name.as_str())) {
        names.pop();
    }
    names
}

fn read_crate(name: &str, source: &Path) -> Crate {
    let mut paths = Vec::new();
    sources(source, &mut paths);
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).expect("read");
        let module = module_of(&path, source);
        let file = File { lines: text.lines().count(), ..File::default() };
        let mut reader = Reader { module: &module, file };
        reader.visit_file(&syn::parse_file(&text).expect("Rust"));
        let file = reader.file;
        (module, file)
    };
    Crate { name: name.to_string(), files: paths.into_iter().map(read).collect() }
}

fn crates() -> Vec<Crate> {
    let folder = tree().join("crates");
    let entries = std::fs::read_dir(&folder).expect("listed").map(|e| e.expect("an entry").path());
    let mut found: Vec<PathBuf> = entries.filter(|path| path.join("src").is_dir()).collect();
    found.sort();
    let read = |path: PathBuf| {
        let name = path.file_name().expect("a name").to_str().expect("text").to_string();
        read_crate(&name, &path.join("src"))
    };
    found.into_iter().map(read).collect()
}

impl Crate {
    /// The file in which a path's item is.
    fn file_of(&self, path: &[String]) -> Names {
        let mut path = path.to_vec();
        let exports: BTreeMap<&Names, &Names> =
            self.files.values().flat_map(|f| f.exports.iter().map(|(a, b)| (a, b))).collect();
        // An export of an export of an export: at most this many times.
        for _ in 0..8 {
            let longest =
                (1..=path.len()).rev().find(|n| exports.contains_key(&path[..*n].to_vec()));
            let Some(length) = longest else { break };
            let target = exports[&path[..length].to_vec()];
            let moved = [&target[..], &path[length..]].concat();
            if moved == path {
                break;
            }
            path = moved;
        }
        while !self.files.contains_key(&path) && !path.is_empty() {
            path.pop();
        }
        path
    }

    /// Which file imports which. A module holds its children: what it names of them is not an
    /// import, and neither is a table that lists them.
    fn imports(&self) -> BTreeSet<(Names, Names)> {
        let mut arrows = BTreeSet::new();
        for (module, file) in self.files.iter().filter(|(module, _)| !module.is_empty()) {
            for path in &file.uses {
                let target = self.file_of(path);
                if target != *module && !target.is_empty() && !target.starts_with(module) {
                    arrows.insert((module.clone(), target));
                }
            }
        }
        arrows
    }

    /// Files that import each other, all ways round.
    fn circles(&self) -> Vec<Vec<String>> {
        let arrows = self.imports();
        let names: Vec<(String, String)> =
            arrows.iter().map(|(a, b)| (a.join("::"), b.join("::"))).collect();
        let graph: DiGraphMap<&str, (), std::hash::RandomState> =
            names.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        let circles = tarjan_scc(&graph).into_iter().filter(|circle| circle.len() > 1);
        circles
            .map(|circle| {
                let mut circle: Vec<String> = circle.into_iter().map(str::to_string).collect();
                circle.sort();
                circle
            })
            .collect()
    }

    /// Named structs by their fields, and in how many files something is implemented for them.
    fn objects(&self) -> Vec<(usize, usize, String)> {
        let mut objects = Vec::new();
        for file in self.files.values() {
            for (name, fields) in &file.structs {
                let files = self.files.values().filter(|f| f.implements.contains(name)).count();
                objects.push((*fields, files, name.clone()));
            }
        }
        objects
    }
}

/// The top-level modules of a crate as ARCHITECTURE.md draws them: each line may use those of the
/// lines below it.
fn drawn(architecture: &str, of: &str) -> Vec<Vec<String>> {
    let start = format!("```arrows {of}\n");
    let (_, drawing) = architecture.split_once(&start).expect("a drawing of its arrows");
    let (drawing, _) = drawing.split_once("```").expect("its end");
    let names = |line: &str| line.split_whitespace().map(str::to_string).collect();
    drawing.lines().map(names).collect()
}

#[test]
fn no_circles_but_those_with_a_reason() {
    let mut met = BTreeSet::new();
    for found in crates() {
        for circle in found.circles() {
            let full = |name: &String| format!("{}::{name}", found.name);
            let reason =
                CIRCLES.iter().find(|(known, _)| circle.iter().any(|name| full(name) == *known));
            assert!(reason.is_some(), "{}: a circle of imports: {circle:?}", found.name);
            met.extend(reason.map(|(known, _)| *known));
        }
    }
    for (known, _) in CIRCLES {
        assert!(met.contains(known), "{known} is in no circle any more: drop its line");
    }
}

#[test]
fn arrows_inside_the_engine_are_those_drawn() {
    let architecture = std::fs::read_to_string(tree().join("ARCHITECTURE.md")).expect("read");
    let drawing = drawn(&architecture, "engine");
    let level = |module: &str| {
        let place = drawing.iter().position(|line| line.iter().any(|name| name == module));
        place.unwrap_or_else(|| panic!("{module} is not in the drawing of ARCHITECTURE.md"))
    };
    let engine = read_crate("engine", &tree().join("crates/engine/src"));
    for (from, to) in engine.imports() {
        let (from, to) = (&from[0], &to[0]);
        assert!(from == to || level(from) < level(to), "{from} uses {to}, against the drawing");
    }
    for module in drawing.iter().flatten() {
        let is_there = engine.files.keys().any(|path| path.first() == Some(module));
        assert!(is_there, "{module} is drawn and not in the engine");
    }
}

/// How many lines a crate's sources have that match.
fn lines_of(name: &str, matches: impl Fn(&str) -> bool) -> usize {
    let mut paths = Vec::new();
    sources(&tree().join("crates").join(name).join("src"), &mut paths);
    let texts = paths.iter().map(|path| std::fs::read_to_string(path).expect("read"));
    texts.map(|text| text.lines().filter(|line| matches(line)).count()).sum()
}

/// Whether a line returns an error that is only text.
fn returns_text_error(line: &str) -> bool {
    line.split("Result<").skip(1).any(|rest| rest.contains(", String>"))
}

/// Files, over all crates, that name a RAID level.
fn files_naming_levels() -> usize {
    let mut paths = Vec::new();
    sources(&tree().join("crates"), &mut paths);
    let names = ["Raid0", "Raid10", "Raid4", "Raid5", "Raid6", "Level::Single"];
    let names_one = |path: &&PathBuf| {
        let text = std::fs::read_to_string(path).expect("read");
        path.iter().any(|part| part == "src") && names.iter().any(|name| text.contains(name))
    };
    paths.iter().filter(names_one).count()
}

/// Packages of a build of the server alone, our own included.
fn packages_of_the_server() -> usize {
    let words = ["tree", "--locked", "-p", "destage-server", "-e", "normal", "--prefix", "none"];
    let output = std::process::Command::new(env!("CARGO"))
        .args(words)
        .arg("--no-default-features")
        .current_dir(tree())
        .output()
        .expect("cargo runs");
    let text = String::from_utf8(output.stdout).expect("text");
    let names = text.lines().map(|line| line.split(" (").next().expect("a name"));
    names.filter(|name| !name.is_empty()).collect::<BTreeSet<_>>().len()
}

/// Imports between the engine's modules, and how many are against the drawing.
fn print_engine_arrows() {
    let engine = read_crate("engine", &tree().join("crates/engine/src"));
    let between: BTreeSet<(String, String)> = engine
        .imports()
        .into_iter()
        .map(|(from, to)| (from[0].clone(), to[0].clone()))
        .filter(|(from, to)| from != to)
        .collect();
    let architecture = std::fs::read_to_string(tree().join("ARCHITECTURE.md")).expect("read");
    if !architecture.contains("```arrows engine\n") {
        println!("engine: {} arrows between modules; ARCHITECTURE.md draws none", between.len());
        return;
    }
    let drawing = drawn(&architecture, "engine");
    let level =
        |module: &String| drawing.iter().position(|line| line.iter().any(|name| name == module));
    let against = between.iter().filter(|(from, to)| level(from) >= level(to)).count();
    println!(
        "engine: {} arrows between modules on {} levels, {against} against the drawing",
        between.len(),
        drawing.len()
    );
}

/// Figures, not a check: `make house`.
#[test]
#[ignore = "prints figures"]
fn figures() {
    let mut objects = Vec::new();
    let mut files = Vec::new();
    let mut total = (0, 0, 0);
    println!(
        "{:<10} {:>6} {:>8} {:>8} {:>8} {:>14}  circles",
        "crate", "files", "lines", "tests", "imports", "Result<String>"
    );
    for found in crates() {
        let name = &found.name;
        let lines: usize = found.files.values().map(|file| file.lines).sum();
        let mut tests = Vec::new();
        let folder = tree().join("crates").join(name).join("tests");
        if folder.is_dir() {
            sources(&folder, &mut tests);
        }
        let lines_in =
            |path: &PathBuf| std::fs::read_to_string(path).expect("read").lines().count();
        let tests: usize = tests.iter().map(lines_in).sum();
        let circles: Vec<usize> = found.circles().iter().map(Vec::len).collect();
        let texts = lines_of(name, returns_text_error);
        println!(
            "{name:<10} {:>6} {lines:>8} {tests:>8} {:>8} {texts:>14}  {circles:?}",
            found.files.len(),
            found.imports().len(),
        );
        total = (total.0 + lines, total.1 + tests, total.2 + texts);
        let named = |(fields, files, object)| (fields, files, format!("{name}::{object}"));
        objects.extend(found.objects().into_iter().map(named));
        let of_crate =
            |(path, file): (&Names, &File)| (file.lines, format!("{name}::{}", path.join("::")));
        files.extend(found.files.iter().map(of_crate));
    }
    println!("{:<10} {:>6} {:>8} {:>8} {:>8} {:>14}", "all", "", total.0, total.1, "", total.2);
    println!();
    print_engine_arrows();
    println!("files that name a RAID level: {}", files_naming_levels());
    println!("packages of the server alone: {}", packages_of_the_server());
    objects.sort_unstable_by(|a, b| b.cmp(a));
    files.sort_unstable_by(|a, b| b.cmp(a));
    println!("\nlargest objects (fields, files with an impl)");
    let coordinators = ["::Volume", "::Controller", "::ArrayBackend"];
    let is_coordinator = |name: &str| coordinators.iter().any(|end| name.ends_with(end));
    for (at, (fields, files, name)) in objects.iter().enumerate() {
        if at < 12 || is_coordinator(name) {
            println!("{fields:>4} {files:>4}  {name}");
        }
    }
    println!("\nlargest files (lines)");
    files.iter().take(8).for_each(|(lines, name)| println!("{lines:>4}  {name}"));
}
