// A service that produces to Kafka itself, in the manner of the article: POST /produce puts its body into a topic, with acks=all, and
// answers 202 when it is there.
//
//	producer LISTEN BROKER TOPIC
package main

import (
	"io"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/segmentio/kafka-go"
)

func main() {
	if len(os.Args) != 4 {
		log.Fatal("usage: producer LISTEN BROKER TOPIC")
	}
	writer := &kafka.Writer{
		Addr:                   kafka.TCP(os.Args[2]),
		Topic:                  os.Args[3],
		RequiredAcks:           kafka.RequireAll,
		BatchTimeout:           2 * time.Millisecond,
		Compression:            kafka.Lz4,
		AllowAutoTopicCreation: true,
	}
	http.HandleFunc("/produce", func(response http.ResponseWriter, request *http.Request) {
		body, err := io.ReadAll(io.LimitReader(request.Body, 64<<10))
		if err == nil {
			err = writer.WriteMessages(request.Context(), kafka.Message{Value: body})
		}
		if err != nil {
			http.Error(response, err.Error(), http.StatusServiceUnavailable)
			return
		}
		response.WriteHeader(http.StatusAccepted)
	})
	log.Fatal(http.ListenAndServe(os.Args[1], nil))
}
