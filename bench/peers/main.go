// Reads or writes keys of another store by its own protocol, as fast as so many connections do.
//
//	peers etcd|redis|cassandra ADDRESS get|put KEYS VALUE-BYTES CONNECTIONS SECONDS
//
// It prints the operations that succeeded. An operation that fails ends it, so that no figure is of errors. Keys are at random out of
// KEYS, which `put` of a first run without SECONDS (0) writes one by one.
package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log"
	"math/rand"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gocql/gocql"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// One connection to a store, or one of those that share one.
type store interface {
	get(key string) error
	put(key string, value []byte) error
}

type etcd struct{ client *clientv3.Client }

func (e etcd) get(key string) error {
	// Serializable: of this node alone, without a round of consensus.
	answer, err := e.client.Get(context.Background(), key, clientv3.WithSerializable())
	if err == nil && len(answer.Kvs) != 1 {
		err = fmt.Errorf("there is no %s", key)
	}
	return err
}

func (e etcd) put(key string, value []byte) error {
	_, err := e.client.Put(context.Background(), key, string(value))
	return err
}

type cassandra struct{ session *gocql.Session }

func (c cassandra) get(key string) error {
	var value []byte
	return c.session.Query("SELECT value FROM bench.kv WHERE key = ?", key).Scan(&value)
}

func (c cassandra) put(key string, value []byte) error {
	return c.session.Query("INSERT INTO bench.kv (key, value) VALUES (?, ?)", key, value).Exec()
}

type redis struct {
	connection net.Conn
	reader     *bufio.Reader
	request    []byte
}

func (r *redis) get(key string) error {
	r.request = append(r.request[:0], "*2\r\n$3\r\nGET\r\n"...)
	r.request = fmt.Appendf(r.request, "$%d\r\n%s\r\n", len(key), key)
	line, err := r.ask()
	if err != nil {
		return err
	}
	length, err := strconv.Atoi(line[1:])
	if err != nil || length < 0 {
		return fmt.Errorf("there is no %s: %s", key, line)
	}
	_, err = io.CopyN(io.Discard, r.reader, int64(length)+2)
	return err
}

func (r *redis) put(key string, value []byte) error {
	r.request = append(r.request[:0], "*3\r\n$3\r\nSET\r\n"...)
	r.request = fmt.Appendf(r.request, "$%d\r\n%s\r\n$%d\r\n%s\r\n", len(key), key, len(value), value)
	line, err := r.ask()
	if err == nil && line != "+OK" {
		err = fmt.Errorf("redis says %s", line)
	}
	return err
}

func (r *redis) ask() (string, error) {
	if _, err := r.connection.Write(r.request); err != nil {
		return "", err
	}
	line, err := r.reader.ReadString('\n')
	if err != nil {
		return "", err
	}
	return line[:len(line)-2], nil
}

// Connections to a store, as its users have them: etcd and Cassandra share few among many requests, Redis has one for each.
func connect(kind, address string, connections int) ([]store, error) {
	stores := make([]store, connections)
	switch kind {
	case "etcd":
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{address}, DialTimeout: 5 * time.Second})
		for i := range stores {
			stores[i] = etcd{client}
		}
		return stores, err
	case "cassandra":
		cluster := gocql.NewCluster(address)
		cluster.Timeout, cluster.ConnectTimeout, cluster.Consistency = 10*time.Second, 10*time.Second, gocql.One
		cluster.DisableInitialHostLookup = true
		session, err := cluster.CreateSession()
		if err != nil {
			return nil, err
		}
		for _, statement := range []string{
			"CREATE KEYSPACE IF NOT EXISTS bench WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
			"CREATE TABLE IF NOT EXISTS bench.kv (key text PRIMARY KEY, value blob)",
		} {
			if err := session.Query(statement).Exec(); err != nil {
				return nil, err
			}
		}
		for i := range stores {
			stores[i] = cassandra{session}
		}
		return stores, nil
	case "redis":
		for i := range stores {
			connection, err := net.Dial("tcp", address)
			if err != nil {
				return nil, err
			}
			stores[i] = &redis{connection: connection, reader: bufio.NewReader(connection)}
		}
		return stores, nil
	}
	return nil, fmt.Errorf("there is no %s here", kind)
}

func main() {
	if len(os.Args) != 8 {
		log.Fatal("usage: peers etcd|redis|cassandra ADDRESS get|put KEYS VALUE-BYTES CONNECTIONS SECONDS")
	}
	numbers := make([]int, 4)
	for i := range numbers {
		number, err := strconv.Atoi(os.Args[4+i])
		if err != nil {
			log.Fatal(err)
		}
		numbers[i] = number
	}
	keys, bytes, connections, seconds := numbers[0], numbers[1], numbers[2], numbers[3]
	stores, err := connect(os.Args[1], os.Args[2], connections)
	if err != nil {
		log.Fatal(err)
	}
	value := make([]byte, bytes)
	for i := range value {
		value[i] = byte('a' + rand.Intn(26))
	}
	isGet, ends := os.Args[3] == "get", time.Now().Add(time.Duration(seconds)*time.Second)
	var done, next atomic.Int64
	var all sync.WaitGroup
	for _, one := range stores {
		all.Go(func() {
			for {
				number := rand.Intn(keys)
				if seconds == 0 {
					number = int(next.Add(1)) - 1
				}
				if (seconds == 0 && number >= keys) || (seconds > 0 && time.Now().After(ends)) {
					return
				}
				key := fmt.Sprintf("key%d", number)
				var err error
				if isGet {
					err = one.get(key)
				} else {
					err = one.put(key, value)
				}
				if err != nil {
					log.Fatal(err)
				}
				done.Add(1)
			}
		})
	}
	all.Wait()
	fmt.Println(done.Load())
}
