package page

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/wfhost/wfhost/host"
)

// hostsData is the list of the hosts of a cluster.
type hostsData struct {
	Alone   bool
	Hosts   []hostRow
	Unowned int
}

// hostRow is a host of a cluster.
type hostRow struct {
	host.HostInfo
	State string // why it takes no partitions, "" if it does
	Clock string
	Off   bool // its clock is off so far that operators should look
	Which string
}

// clockOff is from which difference on a clock is shown as wrong: a host warns from there on.
const clockOff = 500 * time.Millisecond

// hosts shows the hosts of the cluster.
func (v *visit) hosts() error {
	list, err := v.p.h.Hosts()
	if errors.Is(err, host.ErrNotFound) {
		return v.write(http.StatusOK, "hosts", "Hosts", &hostsData{Alone: true})
	}
	if err != nil {
		return err
	}
	d := &hostsData{Unowned: host.NumPartitions}
	for _, x := range list {
		skew := time.Duration(x.SkewMs) * time.Millisecond
		row := hostRow{HostInfo: x, Clock: "right", Off: skew.Abs() >= clockOff, Which: ranges(x.Partitions)}
		if skew != 0 {
			row.Clock = strings.Replace("+"+skew.String(), "+-", "-", 1)
		}
		switch {
		case x.Drained && len(x.Partitions) == 0:
			row.State = "drained"
		case x.Draining:
			row.State = "draining"
		}
		d.Unowned -= len(x.Partitions)
		d.Hosts = append(d.Hosts, row)
	}
	return v.write(http.StatusOK, "hosts", "Hosts", d)
}

// Clustered reports whether the server is one of a cluster.
func (v *visit) Clustered() bool { return v.p.h.Clustered() }

// ranges writes ascending numbers as text: 0–3, 7.
func ranges(list []int) string {
	var parts []string
	for i := 0; i < len(list); {
		j := i
		for j+1 < len(list) && list[j+1] == list[j]+1 {
			j++
		}
		text := fmt.Sprint(list[i])
		if j > i {
			text += fmt.Sprint("–", list[j])
		}
		parts = append(parts, text)
		i = j + 1
	}
	return strings.Join(parts, ", ")
}
