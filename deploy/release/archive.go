package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// file is a file of an archive.
type file struct {
	name string // in the archive
	path string
	mode os.FileMode
}

// create writes a file by a function.
func create(path string, write func(io.Writer) error) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return write(f)
}

// writeTar writes a compressed archive whose bytes depend on the files' contents, names and modes, and on made, alone.
func writeTar(path string, files []file, made time.Time) error {
	return create(path, func(w io.Writer) error {
		z, err := gzip.NewWriterLevel(w, gzip.BestCompression)
		if err != nil {
			return err
		}
		t := tar.NewWriter(z)
		for _, f := range files {
			b, err := os.ReadFile(f.path)
			if err != nil {
				return err
			}
			h := &tar.Header{Typeflag: tar.TypeReg, Name: f.name, Size: int64(len(b)), Mode: int64(f.mode), ModTime: made,
				Format: tar.FormatUSTAR}
			if err := t.WriteHeader(h); err != nil {
				return err
			}
			if _, err := t.Write(b); err != nil {
				return err
			}
		}
		return errors.Join(t.Close(), z.Close())
	})
}

// writeZip is writeTar for systems on which people unpack zip files.
func writeZip(path string, files []file, made time.Time) error {
	return create(path, func(w io.Writer) error {
		z := zip.NewWriter(w)
		for _, f := range files {
			b, err := os.ReadFile(f.path)
			if err != nil {
				return err
			}
			h := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: made}
			h.SetMode(f.mode)
			part, err := z.CreateHeader(h)
			if err != nil {
				return err
			}
			if _, err := part.Write(b); err != nil {
				return err
			}
		}
		return z.Close()
	})
}

// forgetTool removes the hashes of the tool that has made an SBOM from it: they are those of a binary of this machine, and
// the SBOM would be another one on the next.
func forgetTool(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var bill map[string]any
	if err := d.Decode(&bill); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	about, _ := bill["metadata"].(map[string]any)
	tools, ok := about["tools"].([]any)
	if !ok {
		return fmt.Errorf("%s says no tools, whose hashes have to be removed", path)
	}
	for _, tool := range tools {
		if t, ok := tool.(map[string]any); ok {
			delete(t, "hashes")
		}
	}
	return create(path, func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		return e.Encode(bill)
	})
}

// sums writes SHA256SUMS, as sha256sum -c reads it.
func sums(dir string, names []string) error {
	var text strings.Builder
	names = slices.Sorted(slices.Values(names))
	for _, name := range names {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, "%x  %s\n", sha256.Sum256(b), name)
	}
	return os.WriteFile(filepath.Join(dir, "SHA256SUMS"), []byte(text.String()), 0o644)
}
