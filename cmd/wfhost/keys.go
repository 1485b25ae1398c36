package main

import (
	"fmt"
	"strconv"
	"time"

	"github.com/wfhost/wfhost/host"
)

type keysCmd struct {
	New    keysNewCmd    `cmd:"" help:"Print a line with a new key, for a file of --encryption-keys."`
	List   keysListCmd   `cmd:"" help:"Count the records that each key encrypts, in data that no server has open, or in a backup."`
	Forget keysForgetCmd `cmd:"" help:"Drop an unused key from data that no server has open."`
}

type keysNewCmd struct {
	ID string `arg:"" help:"Id of the key, for example the month: letters, digits, dots, dashes, underscores."`
}

func (c *keysNewCmd) Run(g *globals) error {
	line, err := host.NewKeyLine(c.ID)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(g.io.out, line)
	return err
}

type keysListCmd struct {
	Path string `arg:"" help:"Folder with the data of a server that does not run, a backup, or a folder of backups." default:"data"`
}

func (c *keysListCmd) Run(g *globals) error {
	list, err := host.KeysInUse(g.ctx, c.Path)
	if err != nil {
		return err
	}
	if g.Format == "json" {
		return g.json(list)
	}
	rows := make([][]string, 0, len(list))
	for _, u := range list {
		first, key := "", u.Key
		if u.CreatedUnixMs != 0 {
			first = instant(time.UnixMilli(u.CreatedUnixMs))
		}
		if key == "" {
			key = "(in the clear)"
		} else if g.Format == "ids" {
			_, _ = fmt.Fprintln(g.io.out, key)
		}
		rows = append(rows, []string{key, strconv.FormatInt(u.Records, 10), first})
	}
	if g.Format == "ids" {
		return nil
	}
	return g.table("key\trecords\tfirst used", rows)
}

type keysForgetCmd struct {
	ID   string `arg:"" help:"Id of the key."`
	Data string `help:"Folder with the data of a server that does not run." default:"data"`
}

func (c *keysForgetCmd) Run(g *globals) error {
	if err := host.ForgetKey(g.ctx, c.Data, c.ID); err != nil {
		return err
	}
	_, err := fmt.Fprintf(g.io.out, "%s can be opened without the key %s\n", c.Data, c.ID)
	return err
}
