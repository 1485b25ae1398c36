package definition

import (
	"fmt"
	"strings"
)

// Mermaid returns the definition as a Mermaid diagram, which many Markdown viewers can draw.
func (d *Definition) Mermaid() string {
	var b strings.Builder
	b.WriteString("flowchart TD\n")
	index := map[string]int{}
	for i, s := range d.Steps {
		index[s.Name] = i
		open, end := "[", "]"
		switch s.Type {
		case Condition:
			open, end = "{", "}"
		case Wait, Event, Approval:
			open, end = "([", "])"
		case Map, Loop, Workflow:
			open, end = "[[", "]]"
		}
		label := s.Name
		if string(s.Type) != s.Name {
			label += "<br/>" + string(s.Type)
		}
		fmt.Fprintf(&b, "  n%d%s\"%s\"%s\n", i, open, escape(label), end)
	}
	edge := func(from int, to, label string, dotted bool) {
		line := "-->"
		if dotted {
			line = "-.->"
		}
		if label != "" {
			line += "|" + label + "|"
		}
		switch i, ok := index[to]; {
		case ok:
			fmt.Fprintf(&b, "  n%d %s n%d\n", from, line, i)
		case to == End:
			fmt.Fprintf(&b, "  n%d %s finish([end])\n", from, line)
		}
	}
	for i, s := range d.Steps {
		d.edges(i, s, edge)
	}
	return b.String()
}

// Edge connects a step with a possible next step.
type Edge struct {
	From  int    // in Steps
	To    string // name of a step, or End
	Label string // yes, no, fails or undone by; empty for an unconditional edge
	Aside bool   // the edge is only taken after a failure
}

// Edges returns the edges between steps, in the order of the text.
func (d *Definition) Edges() (list []Edge) {
	for i, s := range d.Steps {
		d.edges(i, s, func(from int, to, label string, dotted bool) {
			if to != "" {
				list = append(list, Edge{from, to, label, dotted})
			}
		})
	}
	return list
}

// edges calls edge for each possible successor of a step.
func (d *Definition) edges(i int, s *Step, edge func(from int, to, label string, dotted bool)) {
	following := End
	for _, t := range d.Steps[i+1:] {
		if !t.Auxiliary {
			following = t.Name
			break
		}
	}
	or := func(name string) string {
		if name == "" {
			return following
		}
		return name
	}
	switch {
	case d.Graph:
		for j, t := range d.Steps {
			for _, name := range t.After {
				if name == s.Name {
					edge(i, d.Steps[j].Name, "", false)
				}
			}
		}
	case s.Auxiliary, s.Type == Fail:
	case s.Type == Condition:
		edge(i, or(s.Condition.Then), "yes", false)
		edge(i, or(s.Condition.Else), "no", false)
	default:
		edge(i, or(s.Next), "", false)
	}
	edge(i, s.OnFailure, "fails", true)
	edge(i, s.Compensate, "undone by", true)
}

func escape(s string) string {
	return strings.NewReplacer("<br/>", "<br/>", `"`, "#quot;", "<", "&lt;", ">", "&gt;", "&", "&amp;").Replace(s)
}
