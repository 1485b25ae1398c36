package main

import (
	"fmt"
	"reflect"
	"strings"
)

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// commands gives the names of all commands.
func commands() []string {
	var names []string
	t := reflect.TypeFor[cli]()
	for field := range t.Fields() {
		if _, ok := field.Tag.Lookup("cmd"); ok {
			name := field.Tag.Get("name")
			if name == "" {
				name = strings.ToLower(field.Name)
			}
			names = append(names, name)
		}
	}
	return names
}

func (c *completionCmd) Run(g *globals) error {
	words := strings.Join(commands(), " ")
	var script string
	switch c.Shell {
	case "bash":
		script = `_wfhost() {
  if [ "$COMP_CWORD" -eq 1 ]; then COMPREPLY=($(compgen -W "` + words + `" -- "${COMP_WORDS[1]}"))
  else COMPREPLY=($(compgen -f -- "${COMP_WORDS[COMP_CWORD]}")); fi
}
complete -F _wfhost wfhost
`
	case "zsh":
		script = "#compdef wfhost\n_arguments '1:command:(" + words + ")' '*:file:_files'\n"
	case "fish":
		script = "complete -c wfhost -n __fish_use_subcommand -f -a '" + words + "'\n"
	}
	_, err := fmt.Fprint(g.io.out, script)
	return err
}
