package store

import "strings"

// AppendModuleInfo encodes the info of a module.
func AppendModuleInfo(dst []byte, x *ModuleInfo) []byte {
	e, from := newRecord(dst)
	e.int(1, x.Size)
	e.int(2, x.StoredUnixMs)
	e.bytes(3, x.DescriptionJSON)
	return e.seal(from)
}

// DecodeModuleInfo decodes what AppendModuleInfo made.
func DecodeModuleInfo(b []byte) (x ModuleInfo, err error) {
	err = decode("module", b, func(f field) bool {
		switch f.tag {
		case 1:
			x.Size = f.int()
		case 2:
			x.StoredUnixMs = f.int()
		case 3:
			x.DescriptionJSON = clone(f.b)
		default:
			return false
		}
		return true
	})
	return x, err
}

// AppendVersion encodes a version of a workflow. Lists of grants are joined by NUL, which no name holds.
func AppendVersion(dst []byte, x *Version) []byte {
	e, from := newRecord(dst)
	e.uint(1, uint64(x.Namespace))
	e.string(2, x.Workflow)
	e.uint(3, uint64(x.Number))
	e.bytes(4, x.Module[:])
	e.string(5, joinList(x.Grants.Steps))
	e.string(6, joinList(x.Grants.HTTPHosts))
	e.bool(7, x.Grants.Trusted)
	e.int(8, x.CreatedUnixMs)
	e.bool(9, x.Deleted)
	e.string(10, joinList(x.Grants.Secrets))
	e.bool(11, x.Imported)
	return e.seal(from)
}

// DecodeVersion decodes what AppendVersion made.
func DecodeVersion(b []byte) (x Version, err error) {
	err = decode("version", b, func(f field) bool {
		switch f.tag {
		case 1:
			x.Namespace = NamespaceID(f.num)
		case 2:
			x.Workflow = string(f.b)
		case 3:
			x.Number = small(f.num)
		case 4:
			copy(x.Module[:], f.b)
		case 5:
			x.Grants.Steps = splitList(f.b)
		case 6:
			x.Grants.HTTPHosts = splitList(f.b)
		case 7:
			x.Grants.Trusted = f.num != 0
		case 8:
			x.CreatedUnixMs = f.int()
		case 9:
			x.Deleted = f.num != 0
		case 10:
			x.Grants.Secrets = splitList(f.b)
		case 11:
			x.Imported = f.num != 0
		default:
			return false
		}
		return true
	})
	return x, err
}

// AppendNamespace encodes a namespace.
func AppendNamespace(dst []byte, x *Namespace) []byte {
	e, from := newRecord(dst)
	e.uint(1, uint64(x.ID))
	e.string(2, x.Name)
	e.int(3, x.CreatedUnixMs)
	return e.seal(from)
}

// DecodeNamespace decodes what AppendNamespace made.
func DecodeNamespace(b []byte) (x Namespace, err error) {
	err = decode("namespace", b, func(f field) bool {
		switch f.tag {
		case 1:
			x.ID = NamespaceID(small(f.num))
		case 2:
			x.Name = string(f.b)
		case 3:
			x.CreatedUnixMs = f.int()
		default:
			return false
		}
		return true
	})
	return x, err
}

// AppendToken encodes a token. Scopes are joined by NUL, which no name holds.
func AppendToken(dst []byte, x *Token) []byte {
	e, from := newRecord(dst)
	e.bytes(1, x.Hash[:])
	e.string(2, x.Name)
	e.string(3, x.Namespace)
	e.string(4, joinList(x.Scopes))
	e.int(5, x.CreatedUnixMs)
	e.int(6, x.ExpiresUnixMs)
	return e.seal(from)
}

// DecodeToken decodes what AppendToken made.
func DecodeToken(b []byte) (x Token, err error) {
	err = decode("token", b, func(f field) bool {
		switch f.tag {
		case 1:
			copy(x.Hash[:], f.b)
		case 2:
			x.Name = string(f.b)
		case 3:
			x.Namespace = string(f.b)
		case 4:
			x.Scopes = splitList(f.b)
		case 5:
			x.CreatedUnixMs = f.int()
		case 6:
			x.ExpiresUnixMs = f.int()
		default:
			return false
		}
		return true
	})
	return x, err
}

// AppendKey encodes a key.
func AppendKey(dst []byte, x *SealKey) []byte {
	e, from := newRecord(dst)
	e.string(1, x.ID)
	e.bytes(2, x.Check)
	e.int(3, x.CreatedUnixMs)
	return e.seal(from)
}

// DecodeKey decodes what AppendKey made.
func DecodeKey(b []byte) (x SealKey, err error) {
	err = decode("key", b, func(f field) bool {
		switch f.tag {
		case 1:
			x.ID = string(f.b)
		case 2:
			x.Check = clone(f.b)
		case 3:
			x.CreatedUnixMs = f.int()
		default:
			return false
		}
		return true
	})
	return x, err
}

func joinList(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return strings.Join(list, "\x00") + "\x00"
}

func splitList(b []byte) (list []string) {
	from := 0
	for i, c := range b {
		if c == 0 {
			list = append(list, string(b[from:i]))
			from = i + 1
		}
	}
	return list
}

// joinAttributes joins keys and values by NUL, which is in neither.
func joinAttributes(list []Attribute) string {
	var words []string
	for _, a := range list {
		words = append(words, a.Key, a.Value)
	}
	return joinList(words)
}

func splitAttributes(b []byte) (list []Attribute) {
	words := splitList(b)
	for i := 0; i+1 < len(words); i += 2 {
		list = append(list, Attribute{words[i], words[i+1]})
	}
	return list
}

// Equal reports whether g and h allow the same.
func (g Grants) Equal(h Grants) bool {
	return joinList(g.Steps) == joinList(h.Steps) && joinList(g.HTTPHosts) == joinList(h.HTTPHosts) &&
		joinList(g.Secrets) == joinList(h.Secrets) && g.Trusted == h.Trusted
}
