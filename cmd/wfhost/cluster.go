package main

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/wfhost/wfhost/host"
)

// clusterFlags make a server one of several on a database.
type clusterFlags struct {
	ClusterKey     source        `help:"Key that a cluster shares, a source." env:"WFHOST_CLUSTER_KEY" placeholder:"SOURCE"`
	ClusterAddress string        `help:"Its URL for the others." env:"WFHOST_CLUSTER_ADDRESS" placeholder:"URL"`
	ClusterCA      string        `name:"cluster-ca" help:"Authorities of the others' certificates." type:"path"`
	HostName       string        `help:"Name in the cluster; default: of the machine." env:"WFHOST_HOST_NAME" placeholder:"NAME"`
	Lease          time.Duration `help:"How long a silent server keeps its runs; default 5s." placeholder:"DURATION"`
}

// leastClusterKey is the least length of a key: 32 random bytes are 43 characters of base64.
const leastClusterKey = 32

// cluster returns the configuration of the cluster, nil without --cluster-key. at is the address that the server listens on.
func (c *serveCmd) cluster(g *globals, at string) (*host.Cluster, error) {
	f := &c.clusterFlags
	if f.ClusterKey == "" {
		if f.ClusterAddress != "" || f.ClusterCA != "" || f.HostName != "" || f.Lease != 0 {
			return nil, errors.New("--cluster-address, --cluster-ca, --host-name and --lease need --cluster-key, the key that the " +
				"servers share")
		}
		return nil, nil //nolint:nilnil // it is alone
	}
	if c.Store == "" {
		return nil, errors.New("--cluster-key: the servers of a cluster share a database, so it needs --store")
	}
	b, err := f.ClusterKey.read(g.ctx, g.io.err)
	if err != nil {
		return nil, fmt.Errorf("--cluster-key: %w", err)
	}
	key := strings.TrimSpace(string(b))
	if len(key) < leastClusterKey {
		return nil, fmt.Errorf("--cluster-key: the key must have at least %d characters, got %d; `openssl rand -base64 32` makes one",
			leastClusterKey, len(key))
	}
	name := f.HostName
	if name == "" {
		if name, err = os.Hostname(); err != nil {
			return nil, fmt.Errorf("--host-name is needed, since the machine has no name: %w", err)
		}
	}
	address := f.ClusterAddress
	if address == "" {
		if address, err = c.ownAddress(at, name); err != nil {
			return nil, err
		}
	}
	transport, err := c.peerTransport()
	if err != nil {
		return nil, err
	}
	return &host.Cluster{Name: name, Address: address, Key: []byte(key), Lease: f.Lease, Release: buildVersion(),
		Transport: transport}, nil
}

// ownAddress returns the URL of a server by the address that it listens on, and the name of the machine if that is any address.
func (c *serveCmd) ownAddress(at, name string) (string, error) {
	hostname, port, err := net.SplitHostPort(at)
	if err != nil {
		return "", fmt.Errorf("--cluster-address is needed: %w", err)
	}
	if ip := net.ParseIP(hostname); ip != nil && ip.IsUnspecified() {
		hostname = name
	}
	scheme := "http"
	if c.TLSCert != "" {
		scheme = "https"
	}
	return scheme + "://" + net.JoinHostPort(hostname, port), nil
}

// peerTransport returns how the server reaches the other servers. It shows its certificate, if it has one, to those with
// --client-ca.
func (c *serveCmd) peerTransport() (http.RoundTripper, error) {
	t := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // it is one
	t.Proxy = nil
	t.MaxIdleConnsPerHost = cmp.Or(t.MaxIdleConnsPerHost, peerConnections)
	t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	if c.ClusterCA != "" {
		b, err := os.ReadFile(c.ClusterCA)
		if err != nil {
			return nil, fmt.Errorf("--cluster-ca: %w", err)
		}
		t.TLSClientConfig.RootCAs = x509.NewCertPool()
		if !t.TLSClientConfig.RootCAs.AppendCertsFromPEM(b) {
			return nil, fmt.Errorf("--cluster-ca: there is no certificate in %s", c.ClusterCA)
		}
	}
	if c.TLSCert != "" {
		t.TLSClientConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(c.TLSCert, c.TLSKey) // they may have been replaced
			return &pair, err
		}
	}
	return t, nil
}

// peerConnections are kept to each other server while there is nothing to send.
const peerConnections = 64
