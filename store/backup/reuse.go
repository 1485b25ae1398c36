package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/time/rate"
)

// checkedInTurn is the number of backups over which each shared table is read once and compared with its SHA-256.
// Reading all shared tables for each backup would make it as slow as a full one: 16,000 s for a terabyte at 64 MiB a
// second.
const checkedInTurn = 8

// reusable returns the tables of a backup that the next one may share, and the faults of others. All have the right
// size. It reads the tables that were not read for the most backups: an eighth of the bytes, at least one table. Once a
// table is damaged, it reads all further ones. If the backup's manifest cannot be read, it returns no tables.
func reusable(ctx context.Context, dir string, bytesPerSecond int64) (have []File, notes []string, err error) {
	m, err := ReadManifest(dir)
	if err != nil {
		return nil, []string{fmt.Sprintf("nothing is shared with the backup in %s, which cannot be read: %v", dir, err)}, nil
	}
	var limit *rate.Limiter
	if bytesPerSecond > 0 {
		limit = rate.NewLimiter(rate.Limit(bytesPerSecond), chunkBytes)
	}
	have = there(dir, m)
	slices.SortStableFunc(have, func(a, b File) int { return cmp.Compare(b.Unread, a.Unread) })
	var all, read int64
	for i := range have {
		all += have[i].Size
	}
	sound := have[:0]
	for _, f := range have {
		f.Unread++
		if len(notes) > 0 || read*checkedInTurn < all {
			err := checkFile(ctx, filepath.Join(dir, storeFolder, f.Name), f, limit)
			if ctx.Err() != nil {
				return nil, nil, context.Cause(ctx)
			}
			if err != nil {
				notes = append(notes, fmt.Sprintf("the backup in %s is damaged, and %s is not taken from it: %v", dir, f.Name, err))
				continue
			}
			read, f.Unread = read+f.Size, 0
		}
		sound = append(sound, f)
	}
	return sound, notes, nil
}

// there returns the tables of a backup that have the right size.
func there(dir string, m *Manifest) (have []File) {
	for _, f := range m.Files {
		if info, err := os.Stat(filepath.Join(dir, storeFolder, f.Name)); err == nil && info.Size() == f.Size && isTable(f.Name) {
			have = append(have, f)
		}
	}
	return have
}

// reuse adds a file of the backup before to this backup: by a hard link, or a copy if links are not supported.
func reuse(ctx context.Context, from, to string, f File) error {
	if os.Link(from, to) == nil {
		return nil
	}
	return copyFile(ctx, from, to, f)
}

// copyFile copies a file of a backup durably, and checks it.
func copyFile(ctx context.Context, from, to string, f File) error {
	r, err := os.Open(from)
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%w: %s is missing", ErrDamaged, f.Name)
	}
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }() // it was read
	n, sum, err := write(ctx, to, r)
	if err != nil {
		return err
	}
	return f.check(n, sum)
}
