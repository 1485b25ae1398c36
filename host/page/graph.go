package page

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/wfhost/wfhost/definition"
	"github.com/wfhost/wfhost/host"
)

// This file draws a run of a definition as the graph of its steps: each rank is a line, below all steps that lead to
// it.

// Measures of the drawing, in the units of its view box: pixels unless it is scaled down.
const (
	nodeWidth, nodeHeight = 176, 48
	gapWidth, gapHeight   = 24, 44
	margin                = 20
	// nameChars is how much of a name fits into a node.
	nameChars = 24
)

// Queries that runs of definitions answer.
const (
	queryDefinition = "definition"
	queryProgress   = "progress"
)

// drawn reports whether the runs of a version can be drawn.
func (v *visit) drawn(r *host.Run) bool {
	x, err := v.ns.Workflows().Version(v.r.Context(), r.Workflow, r.Version) // the page itself reports errors of the version
	return err == nil && slices.Contains(x.Queries, queryDefinition) && slices.Contains(x.Queries, queryProgress)
}

// graphData is the drawing of a run.
type graphData struct {
	frame
	Width, Height int
	Nodes         []*node
	Lines         []edge
	Why           string // why there is no drawing
}

// node is a step.
type node struct {
	X, Y              int
	Name, Short, Type string
	Status, Error     string
}

// NameX is where the texts of a node begin.
func (n *node) NameX() int { return n.X + 12 }

// NameY is the baseline of the name.
func (n *node) NameY() int { return n.Y + 21 }

// TypeY is the baseline of the line below the name.
func (n *node) TypeY() int { return n.Y + 38 }

// edge leads from one step to another.
type edge struct {
	Path, Label    string
	LabelX, LabelY int
	Aside          bool
}

// progressOf is the answer of the query progress for one step.
type progressOf struct {
	Name, Status, Error string
}

// graph shows the steps of a run of a definition with their progress.
func (v *visit) graph() error {
	f, err := v.runFrame("graph")
	if err != nil {
		return err
	}
	d := &graphData{frame: f}
	if !f.Drawn {
		return say(http.StatusNotFound, "The run %s is not of a definition: it has no graph.", f.Run.ID)
	}
	def, steps, err := v.definitionOf(f.Run.ID)
	if _, failed := errors.AsType[*host.QueryError](err); failed || err != nil && v.r.Context().Err() == nil {
		d.Why = err.Error()
		return v.write(http.StatusOK, "graph", f.Run.ID+": graph", d)
	}
	if err != nil {
		return err
	}
	d.draw(def, steps)
	return v.write(http.StatusOK, "graph", f.Run.ID+": graph", d)
}

// definitionOf queries a run for its definition and the progress of its steps. The answer comes from a guest, so it is
// read like any uploaded definition.
func (v *visit) definitionOf(id string) (d *definition.Definition, steps map[string]progressOf, err error) {
	text, err := v.ns.Query(v.r.Context(), id, queryDefinition, nil)
	if err != nil {
		return nil, nil, err
	}
	if len(text) > definition.MaxBytes {
		return nil, nil, fmt.Errorf("the definition has %d bytes, the limit is %d", len(text), definition.MaxBytes)
	}
	tree, err := definition.ReadJSON(text)
	if err != nil {
		return nil, nil, err
	}
	d, err = definition.Parse(tree)
	if err != nil {
		return nil, nil, err
	}
	answer, err := v.ns.Query(v.r.Context(), id, queryProgress, nil)
	if err != nil {
		return nil, nil, err
	}
	var list []progressOf
	if err := json.Unmarshal(answer, &list); err != nil {
		return nil, nil, fmt.Errorf("the query %s answers no list of steps: %w", queryProgress, err)
	}
	steps = map[string]progressOf{}
	for _, p := range list {
		steps[p.Name] = p
	}
	return d, steps, nil
}

// ranks returns the line of each step: one more than the lowest line of the steps that lead to it. Edges that lead
// back in the list are loops, and do not count. Steps that run only after failures are on the last line.
func ranks(d *definition.Definition, edges []definition.Edge, index map[string]int) []int {
	rank, last := make([]int, len(d.Steps)), 0
	for range d.Steps { // at most as often as the longest path has steps; usually a few rounds are enough
		moved := false
		for _, e := range edges {
			to, ok := index[e.To]
			if !ok || e.Aside || !d.Graph && to <= e.From {
				continue
			}
			if rank[to] <= rank[e.From] {
				rank[to], moved = rank[e.From]+1, true
			}
		}
		if !moved {
			break
		}
	}
	for i, s := range d.Steps {
		if !s.Auxiliary {
			last = max(last, rank[i])
		}
	}
	for i, s := range d.Steps {
		if s.Auxiliary {
			rank[i] = last + 1
		}
	}
	return rank
}

// draw lays out the graph.
func (g *graphData) draw(d *definition.Definition, steps map[string]progressOf) {
	index := map[string]int{}
	for i, s := range d.Steps {
		index[s.Name] = i
	}
	edges := d.Edges()
	rank := ranks(d, edges, index)
	lines := make([][]int, slices.Max(append(rank, 0))+1)
	for i, r := range rank {
		lines[r] = append(lines[r], i)
	}
	widest := 1
	for _, l := range lines {
		widest = max(widest, len(l))
	}
	g.Width = 2*margin + widest*(nodeWidth+gapWidth)
	g.Height = 2*margin + len(lines)*(nodeHeight+gapHeight) - gapHeight
	g.Nodes = make([]*node, len(d.Steps))
	for r, l := range lines {
		left := (g.Width - len(l)*(nodeWidth+gapWidth) + gapWidth) / 2
		for k, i := range l {
			s := d.Steps[i]
			p := steps[s.Name]
			g.Nodes[i] = &node{X: left + k*(nodeWidth+gapWidth), Y: margin + r*(nodeHeight+gapHeight), Name: s.Name,
				Short: shortened(s.Name, nameChars), Type: string(s.Type), Status: p.Status, Error: p.Error}
		}
	}
	for _, e := range edges {
		if to, ok := index[e.To]; ok {
			g.Lines = append(g.Lines, edgeOf(g.Nodes[e.From], g.Nodes[to], e, g.Width))
		}
	}
}

// edgeOf draws an edge: down from one node to another, or around the right side if it leads back.
func edgeOf(from, to *node, e definition.Edge, width int) edge {
	x1, y1 := from.X+nodeWidth/2, from.Y+nodeHeight
	x2, y2 := to.X+nodeWidth/2, to.Y
	l := edge{Label: e.Label, Aside: e.Aside, LabelX: x1 + (x2-x1)/4 + 6, LabelY: y1 + 16}
	if e.Aside {
		l.LabelX, l.LabelY = x2+8, y2-8
	}
	if to.Y > from.Y {
		bend := max(gapHeight/2, (y2-y1)/3)
		l.Path = fmt.Sprintf("M%d %dC%d %d %d %d %d %d", x1, y1, x1, y1+bend, x2, y2-bend, x2, y2)
		return l
	}
	x1, y1 = from.X+nodeWidth, from.Y+nodeHeight/2
	x2, y2 = to.X+nodeWidth, to.Y+nodeHeight/2
	side := min(max(x1, x2)+gapWidth, width-2)
	l.Path = fmt.Sprintf("M%d %dC%d %d %d %d %d %d", x1, y1, side, y1, side, y2, x2, y2)
	l.LabelX, l.LabelY = max(x1, x2)+2, (y1+y2)/2
	return l
}

// shortened cuts a name to a number of characters.
func shortened(name string, most int) string {
	r := []rune(name)
	if len(r) <= most {
		return name
	}
	return string(r[:most-1]) + "…"
}
