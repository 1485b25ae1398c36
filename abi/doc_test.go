package abi

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// document is ABI.md as far as tests compare it: the rows of its tables.
type document struct {
	text   string
	tables []table
}

type table struct {
	heading string // of the section that it stands in
	columns []string
	rows    [][]string
}

func readDocument(t *testing.T) document {
	t.Helper()
	b, err := os.ReadFile("ABI.md")
	if err != nil {
		t.Fatal(err)
	}
	doc := document{text: string(b)}
	heading, open := "", false
	for line := range strings.Lines(doc.text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "#") {
			heading = strings.TrimLeft(line, "# ")
		}
		if !strings.HasPrefix(line, "|") {
			open = false
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		switch {
		case !open:
			doc.tables = append(doc.tables, table{heading: heading, columns: cells})
			open = true
		case strings.HasPrefix(cells[0], "---"):
		default:
			last := &doc.tables[len(doc.tables)-1]
			last.rows = append(last.rows, cells)
		}
	}
	return doc
}

// rows gives all rows of the tables with these columns, by the first cell without backquotes.
func (d document) rows(t *testing.T, columns ...string) map[string][]string {
	t.Helper()
	rows := map[string][]string{}
	for _, tab := range d.tables {
		if !slices.Equal(tab.columns, columns) {
			continue
		}
		for _, row := range tab.rows {
			name := strings.Trim(row[0], "`")
			if rows[name] != nil {
				t.Errorf("ABI.md has two rows for %s", name)
			}
			if len(row) != len(columns) || row[len(row)-1] == "" {
				t.Errorf("ABI.md: the row of %s has the cells %q", name, row)
				continue
			}
			rows[name] = row
		}
	}
	if len(rows) == 0 {
		t.Fatalf("ABI.md has no table with the columns %q", columns)
	}
	return rows
}

func sameNames[A, B any](t *testing.T, what string, doc map[string]A, code map[string]B) {
	t.Helper()
	for name := range code {
		if _, ok := doc[name]; !ok {
			t.Errorf("%s %s is not in ABI.md", what, name)
		}
	}
	for name := range doc {
		if _, ok := code[name]; !ok {
			t.Errorf("ABI.md has the %s %s, the code does not", what, name)
		}
	}
}

// typeText shows a type as ABI.md does, where a function without result answers ().
func typeText(s Signature) string {
	if len(s.Results) == 0 {
		return s.String() + " -> ()"
	}
	return s.String()
}

// cellsOf gives the number of Wasm values that the documented arguments stand for.
func cellsOf(t *testing.T, arguments string) int {
	t.Helper()
	pairs := strings.Split("name handler input opts text workflow token run signal topic key value id req out", " ")
	single := strings.Split("ptr len ms unix_ms timeout_ms timeout_ns handles n handle max ok level policy", " ")
	n := 0
	for a := range strings.SplitSeq(arguments, ",") {
		switch a = strings.TrimSpace(a); {
		case a == "":
		case slices.Contains(pairs, a):
			n += 2
		case slices.Contains(single, a):
			n++
		default:
			t.Errorf("ABI.md names an argument %q that no other row has", a)
		}
	}
	return n
}

func TestFunctions(t *testing.T) {
	rows := readDocument(t).rows(t, "function", "type", "arguments", "meaning")
	sameNames(t, "function", rows, Functions)
	for name, row := range rows {
		s := Functions[name]
		if want := "`" + typeText(s) + "`"; row[1] != want {
			t.Errorf("ABI.md gives %s the type %s, it is %s", name, row[1], want)
		}
		if n := cellsOf(t, row[2]); n != len(s.Params) {
			t.Errorf("ABI.md gives %s the arguments %q, which are %d values, its type has %d", name, row[2], n, len(s.Params))
		}
	}
	names := constants(t, "func.go", func(name string) bool { return strings.HasPrefix(name, "Fn") })
	if len(names) != len(Functions) {
		t.Errorf("there are %d names of functions and %d functions", len(names), len(Functions))
	}
	for name, value := range names {
		if _, ok := Functions[strings.Trim(value, `"`)]; !ok {
			t.Errorf("%s = %s is no function", name, value)
		}
	}
}

func TestWASIFunctions(t *testing.T) {
	rows := readDocument(t).rows(t, "function", "type", "here")
	all := maps.Clone(WASIFunctions)
	maps.Copy(all, EnvFunctions)
	sameNames(t, "WASI function", rows, all)
	for name, row := range rows {
		if want := "`" + typeText(all[name]) + "`"; row[1] != want {
			t.Errorf("ABI.md gives %s the type %s, it is %s", name, row[1], want)
		}
	}
}

func TestImport(t *testing.T) {
	for _, c := range []struct {
		module, name, want string
	}{
		{"workflow_v1", "sleep", "(i32 i32 i64) -> i64"}, {"wasi_snapshot_preview1", "proc_exit", "(i32)"},
		{"env", "abort", "(i32 i32 i32 i32)"}, {"workflow_v1", "proc_exit", ""}, {"wasi_snapshot_preview1", "sleep", ""},
		{"env", "seed", "() -> f64"}, {"env", "memory", ""}, {"", "sleep", ""}, {"workflow_v2", "sleep", ""}, {"workflow_v1", "", ""},
	} {
		s, ok := Import(c.module, c.name)
		if ok != (c.want != "") || ok && s.String() != c.want {
			t.Errorf("Import(%q, %q) = %v, %v; want %q", c.module, c.name, s, ok, c.want)
		}
	}
	a, b := sig("iI:I"), sig("Ii:I")
	if !a.Equal(sig("iI:I")) || a.Equal(b) || a.Equal(sig("iI:")) || sig(":").Equal(sig(":i")) ||
		!sig(":").Equal(Signature{}) {
		t.Error("Equal does not compare types")
	}
	if got := (Signature{Params: []Type{0x7d, 0x7c, 0x70}}).String(); got != "(f32 f64 other)" {
		t.Errorf("a foreign type is shown as %s", got)
	}
}

func TestExports(t *testing.T) {
	rows := readDocument(t).rows(t, "export", "type", "needed", "meaning")
	types := map[string]string{
		ExportMemory: "memory", ExportRun: "`() -> i32`", ExportRunShort: "`() -> i32`", ExportStart: "`() -> ()`",
		ExportInitialize: "`() -> ()`", ExportStep: "`() -> i32`", ExportDescribe: "`() -> ()`",
		ExportThaw: "`() -> i32`",
	}
	sameNames(t, "export", rows, types)
	for name, row := range rows {
		if row[1] != types[name] {
			t.Errorf("ABI.md gives the export %s the type %s, it is %s", name, row[1], types[name])
		}
	}
	names := constants(t, "abi.go", func(name string) bool { return strings.HasPrefix(name, "Export") })
	if len(names) != len(types) {
		t.Errorf("abi.go has %d names of exports, this test %d", len(names), len(types))
	}
}

func TestCodes(t *testing.T) {
	rows := readDocument(t).rows(t, "number", "name", "meaning")
	values := map[string]bool{}
	for number, row := range rows {
		n, err := strconv.Atoi(number)
		if err != nil || row[1] != Code(n).String() {
			t.Errorf("ABI.md calls code %s %s, it is %s", number, row[1], Code(n))
		}
		values[number] = true
	}
	// Every constant of type Code has a name and a row.
	names := constants(t, "code.go", func(name string) bool { return !strings.HasPrefix(name, "Kind") })
	if len(names) != len(codeNames) || len(rows) != len(codeNames) {
		t.Errorf("there are %d codes, %d names and %d rows", len(names), len(codeNames), len(rows))
	}
	for name, value := range names {
		n, err := strconv.Atoi(value)
		if err != nil || !values[value] {
			t.Errorf("%s = %s has no row in ABI.md", name, value)
			continue
		}
		if text := Code(n).String(); text == "" || strings.ReplaceAll(text, "_", "") != strings.ToUpper(name) {
			t.Errorf("%s is called %q", name, text)
		}
		if got := Code(n).Neg(); got != -int64(n) {
			t.Errorf("%s is negated %d", name, got)
		}
		var again Code
		text, _ := Code(n).MarshalText() // never fails
		if err := again.UnmarshalText(text); err != nil || again != Code(n) {
			t.Errorf("%s is read back as %v, %v", text, again, err)
		}
	}
	for _, c := range []Code{-1, Code(len(codeNames))} {
		if got := c.String(); !strings.HasPrefix(got, "CODE_") {
			t.Errorf("code %d, which does not exist, is called %s", int32(c), got)
		}
	}
	if err := new(Code).UnmarshalText([]byte("NONSENSE")); err == nil {
		t.Error("a name that is none is read")
	}
}

func TestEvents(t *testing.T) {
	rows := readDocument(t).rows(t, "kind", "name", "meaning")
	kinds := map[string]EventKind{"RESOLVED": EventResolved, "RUN_BODY": EventRunBody, "CANCEL": EventCancel,
		"DUMP":  EventDump,
		"QUERY": EventQuery}
	if len(rows) != len(kinds) {
		t.Errorf("ABI.md has %d kinds of events, there are %d", len(rows), len(kinds))
	}
	for number, row := range rows {
		if kind, ok := kinds[row[1]]; !ok || strconv.Itoa(int(kind)) != number {
			t.Errorf("ABI.md calls kind %s %s, which is %d", number, row[1], kind)
		}
	}
	names := constants(t, "abi.go", func(n string) bool { return strings.HasPrefix(n, "Event") && n != "EventsFD" })
	if len(names) != len(kinds) {
		t.Errorf("abi.go has %d kinds of events, this test %d", len(names), len(kinds))
	}
	if got := PackEvent(EventDump, 5); got != 5<<3|3 {
		t.Errorf("PackEvent gives %d", got)
	}
}

func TestLimits(t *testing.T) {
	rows := readDocument(t).rows(t, "limit", "value", "of what")
	limits := map[string]any{
		"MaxNameBytes": MaxNameBytes, "MaxWorkflowBytes": MaxWorkflowBytes, "MaxRunIDBytes": MaxRunIDBytes,
		"MaxPayloadBytes": MaxPayloadBytes, "MaxReportBytes": MaxReportBytes, "BlobBytes": BlobBytes, "MaxOptionBytes": MaxOptionBytes,
		"MaxDurationBytes": MaxDurationBytes, "MaxStepTimeoutMs": MaxStepTimeoutMs, "MaxAwaitHandles": MaxAwaitHandles,
		"MaxEntries": MaxEntries, "SuggestContinueEntries": SuggestContinueEntries, "MaxJournalBytes": MaxJournalBytes,
		"DeliveryReserveShare": DeliveryReserveShare, "MaxUnresolvedHandles": MaxUnresolvedHandles,
		"MaxMemoryBytes": MaxMemoryBytes, "MaxTableElements": MaxTableElements,
		"MaxFuel": MaxFuel, "MaxSegmentCPU": MaxSegmentCPU, "MaxHostCalls": MaxHostCalls, "MaxLogBytes": MaxLogBytes,
		"MaxModuleBytes": MaxModuleBytes, "MaxUnixMs": int64(MaxUnixMs), "MaxPollTickTime": MaxPollTickTime, "MaxLagMs": MaxLagMs,
		"MaxPollSubscriptions": MaxPollSubscriptions, "MaxPendingSignalBytes": MaxPendingSignalBytes,
		"MaxPendingSignals": MaxPendingSignals, "PendingNameShare": PendingNameShare,
		"MaxUpdateNameBytes": MaxUpdateNameBytes, "MaxPendingUpdates": MaxPendingUpdates,
		"MaxSignalKeys": MaxSignalKeys, "MaxUnrecordedMarkers": MaxUnrecordedMarkers, "MaxAttributes": MaxAttributes, "MaxAttributeBytes": MaxAttributeBytes,
		"MaxMemoBytes": MaxMemoBytes, "MaxWorkflows": MaxWorkflows, "MaxChildDepth": MaxChildDepth,
		"MaxLiveChildren": MaxLiveChildren, "CancelGraceMs": CancelGraceMs, "RefusalReserve": RefusalReserve,
		"MaxIOVectors": MaxIOVectors, "MaxIOBytes": MaxIOBytes, "MinUnixMs": int64(MinUnixMs),
	}
	sameNames(t, "limit", rows, limits)
	sameNames(t, "limit", constants(t, "limit.go", func(string) bool { return true }), limits)
	for name, row := range rows {
		var want string
		switch v := limits[name].(type) {
		case int:
			want = strconv.Itoa(v)
		case int64:
			want = strconv.FormatInt(v, 10)
		case time.Duration:
			want = FormatDuration(v.Milliseconds())
		}
		if got := strings.ReplaceAll(row[1], ",", ""); got != want {
			t.Errorf("ABI.md gives %s the value %s, it is %s", name, row[1], want)
		}
	}
	if ms := time.Duration(MaxStepTimeoutMs) * time.Millisecond; ms < 0 || ms+time.Millisecond > 0 {
		t.Errorf("MaxStepTimeoutMs is not the longest time.Duration: %v", ms)
	}
}

// hookParser is that of the first table of options.
var hookParser = optionParser{3, func(b []byte) error { _, err := ParseHookOptions(b); return err }}

type optionParser = struct {
	fields int
	parse  func([]byte) error
}

// TestOptionsAreDocumented compares the fields of the option tables with what the parsers know, and the defaults
// of a step.
func TestOptionsAreDocumented(t *testing.T) {
	doc := readDocument(t)
	var sets []table
	for _, tab := range doc.tables {
		if slices.Equal(tab.columns, []string{"field", "default", "meaning"}) {
			sets = append(sets, tab)
		}
	}
	parsers := []optionParser{
		{9, func(b []byte) error { _, err := ParseStepOptions(b); return err }},
		{6, func(b []byte) error { _, err := ParseChildOptions(b); return err }},
		{1, func(b []byte) error { _, err := ParseContinueOptions(b); return err }},
	}
	parsers = append(parsers[:0:0], hookParser, parsers[0], parsers[1], parsers[2])
	if len(sets) != len(parsers) {
		t.Fatalf("ABI.md has %d tables of options, want %d", len(sets), len(parsers))
	}
	for i, p := range parsers {
		if len(sets[i].rows) != p.fields {
			t.Errorf("table %d has %d options, want %d", i, len(sets[i].rows), p.fields)
		}
		for _, row := range sets[i].rows {
			field, value := strings.Trim(row[0], "`"), strings.Trim(row[1], "`")
			if value == "" { // no default that can be written
				value = map[string]string{"id": `"x"`, "version": `"latest"`, "attributes": "{}", "memo": "{}"}[field]
			}
			if err := p.parse([]byte(`{"` + field + `":` + value + `}`)); err != nil {
				t.Errorf("the documented default of %s: %v", field, err)
			}
			if err := p.parse([]byte(`{"` + field + `":null}`)); err == nil || !strings.Contains(err.Error(), field) {
				t.Errorf("%s: null gives %v", field, err)
			}
		}
	}
	step := "{"
	var stepSb357 strings.Builder
	for i, row := range sets[1].rows {
		stepSb357.WriteString(strings.Repeat(",", min(i, 1)) + `"` + strings.Trim(row[0], "`") + `":` + strings.Trim(row[1], "`"))
	}
	step += stepSb357.String()
	step += "}"
	if step != string(defaultStep.JSON()) || !strings.Contains(doc.text, step) {
		t.Errorf("the documented defaults of a step are\n%s, they are\n%s", step, defaultStep.JSON())
	}
}

// TestOtherNamesAreDocumented covers the constants that have no table.
func TestOtherNamesAreDocumented(t *testing.T) {
	doc := readDocument(t)
	for _, name := range []string{ImportModule, WASIModule, EnvModule, HandlerPrefix, wasiPrefix, BodiesEvent,
		KindError, KindTimeout,
		KindTrap, KindMemory, KindStack, KindUnknown, OnEndCancel, OnEndTerminate, OnEndAbandon, ContinuePinned, ContinueLatest,
		BackoffFixed, BackoffLinear, BackoffExponential} {
		if !strings.Contains(doc.text, "`"+name+"`") {
			t.Errorf("ABI.md does not mention `%s`", name)
		}
	}
	levels := []string{LogDebug: "debug", LogInfo: "info", LogWarn: "warn", LogError: "error"}
	for n, name := range levels {
		if !strings.Contains(doc.text, strconv.Itoa(n)+" "+name) {
			t.Errorf("ABI.md does not say that level %d is %s", n, name)
		}
	}
	if !strings.Contains(doc.text, "**Descriptor "+strconv.Itoa(EventsFD)+"**") {
		t.Error("ABI.md names another descriptor of events")
	}
}

// TestDocumentedExamples reads what ABI.md gives as examples of duration text and instants.
func TestDocumentedExamples(t *testing.T) {
	_, section, ok := strings.Cut(readDocument(t).text, "## 9. ")
	section, _, _ = strings.Cut(section, "## 10. ")
	good, bad, found := strings.Cut(section, "Refused\nwith INVALID_DURATION")
	bad, instants, found2 := strings.Cut(bad, "`sleep_text`")
	if !ok || !found || !found2 {
		t.Fatal("section 9 of ABI.md is not as this test knows it")
	}
	quotes := regexp.MustCompile("`([^`]+)`")
	units := []string{"ms", "s", "m", "h", "d", "w"}
	n := 0
	for _, m := range quotes.FindAllStringSubmatch(good, -1) {
		if slices.Contains(units, m[1]) {
			continue
		}
		n++
		if _, err := ParseDuration(m[1]); err != nil {
			t.Error(err)
		}
	}
	for _, m := range quotes.FindAllStringSubmatch(bad, -1) {
		n++
		if ms, err := ParseDuration(m[1]); err == nil {
			t.Errorf("ABI.md says that %q is refused, it is %d ms", m[1], ms)
		}
	}
	for _, m := range quotes.FindAllStringSubmatch(instants, -1) {
		n++
		if _, err := ParseInstant(m[1]); err != nil {
			t.Error(err)
		}
	}
	if n < 20 {
		t.Errorf("only %d examples were found", n)
	}
}

// constants lists the constants of a file whose names are wanted, with their source text.
func constants(t *testing.T, path string, want func(name string) bool) map[string]string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, path, b, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, d := range f.Decls {
		decl, ok := d.(*ast.GenDecl)
		if !ok || decl.Tok != token.CONST {
			continue
		}
		for _, s := range decl.Specs {
			spec, ok := s.(*ast.ValueSpec)
			if !ok || !ast.IsExported(spec.Names[0].Name) || !want(spec.Names[0].Name) {
				continue
			}
			value := spec.Values[0]
			found[spec.Names[0].Name] = string(b[fset.Position(value.Pos()).Offset:fset.Position(value.End()).Offset])
		}
	}
	return found
}

func TestLiveChildren(t *testing.T) {
	for _, c := range [][3]int{{1000, 0, 1000}, {1000, 1, 500}, {1000, 9, 1}, {1000, 16, 1}, {1000, 1 << 30, 1}, {1, 0, 1}} {
		if got := LiveChildren(c[0], c[1]); got != c[2] {
			t.Errorf("LiveChildren(%d, %d) = %d, want %d", c[0], c[1], got, c[2])
		}
	}
}
