package typescript

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/evanw/esbuild/pkg/api"

	"github.com/wfhost/wfhost/abi"
	sdk "github.com/wfhost/wfhost/guest-sdk/js"
	"github.com/wfhost/wfhost/typescript/engine"
)

// main returns the text of the script's main file. It imports the engine's part of the SDK first, because that part defines
// globals that programs may use while they are loaded, such as URL.
func (p program) main() (string, error) {
	unnamed := ""
	if e, ok := errors.AsType[*abi.Error](abi.CheckWorkflow(p.name)); ok {
		unnamed = fmt.Sprintf("the workflow that is exported as the default has the name of its %s, which cannot be one: %s: name it "+
			"with workflow(\"name\", fn)", p.named, e.Message)
	}
	file := filepath.ToSlash(p.entry)
	values, err := json.Marshal([]string{"./" + file, file, p.name, unnamed})
	if err != nil {
		return "", err
	}
	var texts []json.RawMessage
	if err := json.Unmarshal(values, &texts); err != nil {
		return "", err
	}
	return fmt.Sprintf("import { serve } from %q;\nimport * as program from %s;\nserve(program, %s, %s, %s);\n",
		sdk.Package+"/engine", texts[0], texts[1], texts[2], texts[3]), nil
}

// bundle makes one script from a program, its imports and the SDK.
func bundle(p program) (engine.Script, error) {
	main, err := p.main()
	if err != nil {
		return engine.Script{}, err
	}
	result := api.Build(api.BuildOptions{
		Stdin:         &api.StdinOptions{Contents: main, ResolveDir: p.dir, Sourcefile: sdk.Package + "/main.js", Loader: api.LoaderJS},
		AbsWorkingDir: p.dir, Outfile: filepath.Join(p.dir, "workflow.js"),
		Bundle: true, Format: api.FormatIIFE, Target: api.ES2023, Platform: api.PlatformNeutral,
		MainFields: []string{"module", "main"}, Conditions: []string{"wfhost", "worker", "module"},
		Define: map[string]string{"process.env.NODE_ENV": `"production"`, "process.env": "__wfEnvironment",
			"global": "globalThis"},
		TreeShaking: api.TreeShakingTrue, MinifySyntax: true, KeepNames: true, LegalComments: api.LegalCommentsNone,
		Loader:    map[string]api.Loader{".txt": api.LoaderText, ".wasm": api.LoaderBinary},
		Sourcemap: api.SourceMapExternal, SourcesContent: api.SourcesContentExclude, Metafile: true,
		Plugins: []api.Plugin{embedded, builtins}, LogLevel: api.LogLevelSilent, LogLimit: maxMessages,
	})
	if len(result.Errors) > 0 {
		return engine.Script{}, failed(result.Errors)
	}
	s := engine.Script{}
	for _, f := range result.OutputFiles {
		if filepath.Ext(f.Path) == ".js" {
			s.Text = f.Contents
		} else if s.Files, s.Places, err = parseMap(f.Contents); err != nil {
			return engine.Script{}, err
		}
	}
	s.Text, err = hideRequire(markSloppy(s.Text), result.Metafile, s.Files, s.Places)
	if err != nil {
		return engine.Script{}, err
	}
	// In stacks, the bundle's own code around the files counts as part of the SDK.
	first, end := uint32(0), uint32(bytes.Count(bytes.TrimRight(s.Text, "\n"), []byte("\n")))
	if len(s.Places) > 0 {
		first = s.Places[0].Line
	}
	s.Files = append(s.Files, sdk.Package+"/main.js")
	var around []engine.Place
	for line := range first {
		around = append(around, engine.Place{Line: line, File: uint32(len(s.Files))})
	}
	s.Places = append(append(around, s.Places...), engine.Place{Line: end, File: uint32(len(s.Files))})
	return s, nil
}

// failed returns one error for the messages of a bundle.
func failed(messages []api.Message) error {
	for i, m := range messages {
		if strings.Contains(m.Text, "op-level await") {
			messages[i].Text = "a file cannot await at its top level: it is loaded once for all runs; await in the function of the " +
				"workflow"
			messages[i].Notes = nil // they recommend other formats
		}
		if name, ok := strings.CutPrefix(m.Text, "Could not resolve "); ok {
			// Imports cannot be marked as external here: a module has no loader.
			m.Notes = slices.DeleteFunc(m.Notes, func(n api.Note) bool { return strings.Contains(n.Text, "as external") })
			name = packageOf(strings.Trim(name, `"`))
			if name != "" && len(m.Notes) == 0 {
				m.Notes = []api.Note{{Text: "Install it beside the program: npm install " + name}}
			}
			messages[i].Notes = m.Notes
		}
	}
	lines := api.FormatMessages(messages, api.FormatMessagesOptions{Kind: api.ErrorMessage})
	return errors.New(strings.TrimSpace(strings.Join(lines, "")))
}

// packageOf returns the package name in an import path, "" for a file.
func packageOf(path string) string {
	if path == "" || path[0] == '.' || path[0] == '/' {
		return ""
	}
	parts := strings.SplitN(path, "/", 3)
	if path[0] == '@' && len(parts) > 1 {
		return parts[0] + "/" + parts[1]
	}
	return parts[0]
}

// maxMessages limits the number of errors of a program that are shown.
const maxMessages = 20

// namespace is the namespace of embedded files, which are not on a disk.
const namespace = "wfhost"

// embedded resolves imports of the SDK to the files that are embedded in this program, like the engine. So a build needs no
// npm install, and SDK and engine fit each other. The package from npm is for editors and tests.
var embedded = api.Plugin{Name: "wfhost-sdk", Setup: func(b api.PluginBuild) {
	part := api.OnResolveOptions{Filter: "^" + sdk.Package + "(/|$)"}
	b.OnResolve(part, func(a api.OnResolveArgs) (api.OnResolveResult, error) {
		file, ok := sdk.Resolve(a.Path)
		if !ok {
			return api.OnResolveResult{}, fmt.Errorf("%s has no part for workflows that is called %q", sdk.Package, a.Path)
		}
		return api.OnResolveResult{Path: file, Namespace: namespace}, nil
	})
	inner := api.OnResolveOptions{Filter: `^\.`, Namespace: namespace}
	b.OnResolve(inner, func(a api.OnResolveArgs) (api.OnResolveResult, error) {
		return api.OnResolveResult{Path: path.Join(path.Dir(a.Importer), a.Path), Namespace: namespace}, nil
	})
	b.OnLoad(api.OnLoadOptions{Filter: ".*", Namespace: namespace}, func(a api.OnLoadArgs) (api.OnLoadResult, error) {
		text, err := sdk.Files.ReadFile(a.Path)
		contents := string(text)
		return api.OnLoadResult{Contents: &contents, Loader: api.LoaderJS}, err
	})
}}

// nodeModules are names of modules that Node has, and that packages import without "node:".
const nodeModules = "assert|async_hooks|buffer|child_process|cluster|crypto|dgram|diagnostics_channel|dns|domain|events|fs|" +
	"http|http2|https|inspector|module|net|os|path|perf_hooks|process|punycode|querystring|readline|repl|stream|string_decoder|" +
	"timers|tls|tty|url|util|v8|vm|wasi|worker_threads|zlib"

// builtins refuses imports of Node's modules, unless the project has a package with that name.
var builtins = api.Plugin{Name: "wfhost-node", Setup: func(b api.PluginBuild) {
	type again struct{}
	refuse := func(a api.OnResolveArgs) (api.OnResolveResult, error) {
		if _, inner := a.PluginData.(again); inner {
			return api.OnResolveResult{}, nil
		}
		if !strings.HasPrefix(a.Path, "node:") {
			r := b.Resolve(a.Path, api.ResolveOptions{ResolveDir: a.ResolveDir, Importer: a.Importer, Kind: a.Kind,
				PluginData: again{}})
			if len(r.Errors) == 0 {
				return api.OnResolveResult{Path: r.Path, Namespace: r.Namespace, External: r.External}, nil
			}
		}
		return api.OnResolveResult{}, fmt.Errorf("%q is a module of Node, and a workflow has no files, sockets or processes: do what "+
			"it is for in a handler of the host, or by fetch in a step", a.Path)
	}
	b.OnResolve(api.OnResolveOptions{Filter: "^node:|^(" + nodeModules + ")(/.*)?$"}, refuse)
}}

// parseMap parses a source map. It returns the source files, and the places of the parts of the script.
func parseMap(text []byte) (files []string, places []engine.Place, err error) {
	var m struct {
		Sources  []string `json:"sources"`
		Mappings string   `json:"mappings"`
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return nil, nil, fmt.Errorf("the bundle's source map: %w", err)
	}
	for _, s := range m.Sources {
		if rest, ok := strings.CutPrefix(s, namespace+":"); ok {
			s = sdk.Package + "/" + rest
		}
		files = append(files, s)
	}
	var at [4]int64 // column, file, line and column there
	for line, part := range strings.Split(m.Mappings, ";") {
		at[0] = 0
		for _, segment := range strings.Split(part, ",") {
			fields, err := vlq(segment)
			if err != nil {
				return nil, nil, err
			}
			for i := range min(len(fields), len(at)) {
				at[i] += fields[i]
			}
			if len(fields) >= len(at) && at[1] >= 0 && at[1] < int64(len(files)) {
				places = append(places, engine.Place{Line: uint32(line), Column: uint32(at[0]), File: uint32(at[1]) + 1,
					ToLine: uint32(at[2]), ToColumn: uint32(at[3])})
			}
		}
	}
	return files, places, nil
}

// vlq decodes the numbers in a segment of a source map (base64 VLQ).
func vlq(text string) (numbers []int64, err error) {
	const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	const more, payload, width = 32, 31, 5
	var v int64
	shift := 0
	for _, c := range []byte(text) {
		d := int64(strings.IndexByte(digits, c))
		if d < 0 || shift > 40 {
			return nil, errors.New("the bundle's source map is not well formed: " + strconv.Quote(text))
		}
		v |= d & payload << shift
		shift += width
		if d&more != 0 {
			continue
		}
		n := v >> 1
		if v&1 != 0 {
			n = -n
		}
		numbers, v, shift = append(numbers, n), 0, 0
	}
	return numbers, nil
}
