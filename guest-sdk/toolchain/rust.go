package toolchain

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// rustTarget is the default target of workflows in Rust.
const rustTarget = "wasm32-unknown-unknown"

// configs are the names of cargo's configuration file in a folder, in order of precedence.
var configs = []string{".cargo/config", ".cargo/config.toml"}

var (
	tomlTable  = regexp.MustCompile(`^\s*\[+\s*([^\]]*?)\s*\]+`)
	tomlTarget = regexp.MustCompile(`^\s*(build\s*\.\s*)?target\s*=\s*\[?\s*["']([^"']+)["']`)
)

// target returns the target of a project: CARGO_BUILD_TARGET, or build.target in the nearest configuration of cargo, with
// cargo's order of search. It ignores targets other than WebAssembly: they are for other programs on this machine.
func target(dir string) (string, error) {
	named := os.Getenv("CARGO_BUILD_TARGET")
	for at := dir; named == ""; at = filepath.Dir(at) {
		for _, name := range configs {
			text, err := os.ReadFile(filepath.Join(at, name))
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				return "", err
			}
			named = configured(string(text))
			if named != "" {
				break
			}
		}
		if at == filepath.Dir(at) {
			break
		}
	}
	if strings.HasPrefix(named, "wasm32-") {
		return named, nil
	}
	return rustTarget, nil
}

// configured returns build.target in the text of a configuration, or its first element if it is a list; empty if there is
// none.
func configured(text string) string {
	table := ""
	for line := range strings.Lines(text) {
		if m := tomlTable.FindStringSubmatch(line); m != nil {
			table = m[1]
			continue
		}
		if m := tomlTarget.FindStringSubmatch(line); m != nil && (table == "build" && m[1] == "" || table == "" && m[1] != "") {
			return m[2]
		}
	}
	return ""
}

// rust returns the folder of the first rustc in PATH that supports the target.
func rust(ctx context.Context, target string) (bin string, err error) {
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		rustc := filepath.Join(dir, "rustc")
		if _, err := exec.LookPath(rustc); err != nil {
			continue
		}
		lib, err := exec.CommandContext(ctx, rustc, "--print", "target-libdir", "--target", target).Output()
		if err != nil {
			continue
		}
		if std, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(lib)), "libstd-*.rlib")); err == nil && len(std) > 0 {
			return dir, nil
		}
	}
	hint := "rustup target add " + target
	if target == rustTarget {
		hint += "; on Debian and Ubuntu: apt-get install cargo rustc lld libstd-rust-dev-wasm32"
	}
	return "", &MissingError{"Rust", "a Rust with the target " + target, hint}
}

func compileRust(ctx context.Context, dir string, _ []string, out string) error {
	triple, err := target(dir)
	if err != nil {
		return err
	}
	bin, err := rust(ctx, triple)
	if err != nil {
		return err
	}
	made, err := cargo(ctx, dir, bin, triple, filepath.Dir(out))
	if err != nil {
		return err
	}
	if len(made) != 1 {
		return fmt.Errorf("cargo has made %d modules of %s, and should make one: its Cargo.toml needs [lib] with crate-type = "+
			"[\"cdylib\"]", len(made), dir)
	}
	return copyFile(made[0], out)
}

// cargo builds a project and returns the paths of its modules, including unchanged ones but not the dependencies' modules.
func cargo(ctx context.Context, dir, bin, triple, tmp string) ([]string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "cargo"), "build", "--release", "--quiet", "--target", triple,
		"--target-dir", targetDir(dir, tmp), "--message-format", "json-render-diagnostics")
	cmd.Dir = dir
	cmd.Env = append(cmd.Environ(), "RUSTC="+filepath.Join(bin, "rustc"))
	var artifacts, messages bytes.Buffer
	cmd.Stdout, cmd.Stderr = &artifacts, &messages
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("cargo in %s: %w\n%s", dir, err, bytes.TrimSpace(messages.Bytes()))
	}
	return modules(&artifacts)
}

// modules reads the paths of modules from cargo's messages, which have one object per crate. It skips the modules of
// dependencies, which are in the folder deps.
func modules(artifacts *bytes.Buffer) (made []string, err error) {
	for d := json.NewDecoder(artifacts); d.More(); {
		var artifact struct {
			Filenames []string `json:"filenames"`
		}
		if err := d.Decode(&artifact); err != nil {
			return nil, fmt.Errorf("the output of cargo build cannot be read: %w", err)
		}
		for _, name := range artifact.Filenames {
			if filepath.Ext(name) == ".wasm" && filepath.Base(filepath.Dir(name)) != "deps" {
				made = append(made, name)
			}
		}
	}
	return made, nil
}

// targetDir returns the folder for cargo's build output, so that the next build compiles changed code only. Each project has
// its own folder: in a shared folder, each build would discard the output of the other project. The folder's name shows
// people the project.
func targetDir(dir, tmp string) string {
	if own := os.Getenv("CARGO_TARGET_DIR"); own != "" {
		return own
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return filepath.Join(tmp, "target")
	}
	return filepath.Join(cache, "wfhost", "cargo", fmt.Sprintf("%s-%.16x", filepath.Base(dir), sha256.Sum256([]byte(dir))))
}
