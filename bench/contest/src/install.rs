//! The tools of the other contenders: found, or installed at the versions that `bench/contest/strangers` pins.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};
use serde_json::Value;

pub(crate) const QHOOK_VERSION: &str = "0.6.1";

/// Where the other servers' own files are.
pub(crate) fn strangers() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("strangers")
}

/// The folder for what is installed or kept, in the build's own.
pub(crate) fn folder() -> anyhow::Result<PathBuf> {
    let program = std::env::current_exe().context("cannot find this program")?;
    let target = program.ancestors().nth(2).context("this program is in no build folder")?;
    let folder = target.join("contest-files");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    Ok(folder)
}

/// The folder of Node's programs, with their packages.
pub(crate) fn node() -> anyhow::Result<PathBuf> {
    let folder = strangers().join("node");
    let is_there = |(name, version): &(String, String)| {
        let package = fs::read_to_string(folder.join("node_modules").join(name).join("package.json"));
        let package: Option<Value> = package.ok().and_then(|text| serde_json::from_str(&text).ok());
        package.is_some_and(|package| package["version"] == version.as_str())
    };
    if !node_packages()?.iter().all(is_there) {
        run(Command::new("npm").args(["install", "--no-audit", "--no-fund"]).current_dir(&folder))?;
    }
    Ok(folder)
}

/// The packages of Node's programs and their versions.
pub(crate) fn node_packages() -> anyhow::Result<Vec<(String, String)>> {
    let text = fs::read_to_string(strangers().join("node/package.json")).context("cannot read package.json")?;
    let package: Value = serde_json::from_str(&text)?;
    let packages = package["dependencies"].as_object().context("package.json has no dependencies")?;
    Ok(packages.iter().map(|(name, version)| (name.clone(), version.as_str().unwrap_or_default().to_owned())).collect())
}

/// A Python that has the packages.
pub(crate) fn python() -> anyhow::Result<PathBuf> {
    let wanted = strangers().join("python/requirements.txt");
    let venv = folder()?.join("venv");
    let (python, installed) = (venv.join("bin/python"), venv.join("requirements.txt"));
    if fs::read(&installed).ok() != Some(fs::read(&wanted)?) {
        run(Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
        run(Command::new(&python).args(["-m", "pip", "install", "--quiet", "-r"]).arg(&wanted))?;
        fs::copy(&wanted, &installed)?;
    }
    Ok(python)
}

/// The packages of Python's program and their versions.
pub(crate) fn python_packages() -> anyhow::Result<Vec<(String, String)>> {
    let text =
        fs::read_to_string(strangers().join("python/requirements.txt")).context("cannot read requirements.txt")?;
    let pins = text.lines().filter_map(|line| line.split_once("=="));
    Ok(pins.map(|(name, version)| (name.to_owned(), version.to_owned())).collect())
}

/// Redis, which is the system's.
pub(crate) fn redis() -> anyhow::Result<PathBuf> {
    let program = PathBuf::from("redis-server");
    if Command::new(&program).arg("--version").output().is_err() {
        // The variable keeps the package from starting a server of its own.
        let environment = [("RUNLEVEL", "1"), ("DEBIAN_FRONTEND", "noninteractive")];
        let package = ["install", "-y", "--no-install-recommends", "redis-server"];
        run(Command::new("apt-get").args(package).envs(environment))?;
    }
    Ok(program)
}

/// qhook, built here.
pub(crate) fn qhook() -> anyhow::Result<PathBuf> {
    let root = folder()?.join("qhook");
    let program = root.join("bin/qhook");
    if !program.is_file() {
        let what = ["install", "qhook", "--version", QHOOK_VERSION, "--locked", "--root"];
        run(Command::new("cargo").args(what).arg(&root))?;
    }
    Ok(program)
}

fn run(command: &mut Command) -> anyhow::Result<()> {
    let shown = format!("{command:?}");
    eprintln!("installing: {shown}");
    // What it prints must not be taken for figures.
    let status = command.stdout(std::io::stderr()).status().with_context(|| format!("cannot run {shown}"))?;
    ensure!(status.success(), "{shown} ended with {status}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_package_is_pinned() {
        let packages = [node_packages().expect("a file"), python_packages().expect("a file")].concat();
        assert!(packages.len() > 8, "{packages:?}");
        for (name, version) in packages {
            let is_exact = version.split('.').count() == 3 && version.chars().all(|c| c.is_ascii_digit() || c == '.');
            assert!(is_exact, "{name} {version}");
        }
        let lines = fs::read_to_string(strangers().join("python/requirements.txt")).expect("a file").lines().count();
        assert_eq!(lines, python_packages().expect("a file").len());
    }
}
