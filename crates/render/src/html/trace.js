(() => {
  const { axis, bar, byId, color, css, line, plain } = Charts;
  const { traces } = JSON.parse(byId("data").textContent);

  const READS = 0;
  const WRITES = 1;
  const ALL = 2;
  const MIB = 1048576;
  const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

  const trace = () => traces[byId("trace") ? Number(byId("trace").value) : 0];
  const menu = (id) => Number(byId(id).value);
  const percent = (part, all) => (all ? (100 * part) / all : 0);

  function size(bytes) {
    let at = 0;
    while (at + 1 < UNITS.length && bytes >= 1024 ** (at + 1)) at += 1;
    return Number((bytes / 1024 ** at).toPrecision(3)) + " " + UNITS[at];
  }

  // The largest unit in which a duration is at least 3.
  function unitOf(seconds) {
    const units = [
      ["d", 86400],
      ["h", 3600],
      ["min", 60],
      ["s", 1],
    ];
    return units.find((unit) => seconds >= 3 * unit[1]) || units[units.length - 1];
  }

  function spell(seconds) {
    const [name, length] =
      [
        ["d", 86400],
        ["h", 3600],
        ["min", 60],
        ["s", 1],
      ].find((unit) => seconds >= unit[1]) || ["ms", 0.001];
    return Number((seconds / length).toPrecision(3)) + " " + name;
  }

  // Values of intervals as steps: each is drawn over its interval.
  function steps(i, name, x, y, rest) {
    const shape = { color: color(i), width: 1.8, shape: "hv", ...rest.line };
    const drawn = line(i, name, [...x, 2 * x[x.length - 1] - x[x.length - 2]], [...y, y[y.length - 1]]);
    return { ...drawn, ...rest, mode: "lines", line: { ...drawn.line, ...shape } };
  }

  function overTime(time) {
    const [name, length] = unitOf(time.interval_s * time.intervals.length);
    const x = time.intervals.map((_, i) => (i * time.interval_s) / length);
    if (x.length === 1) x.push(time.interval_s / length);
    return { x, axis: axis("Time (" + name + ")", { tickformat: "," }), name };
  }

  const padded = (x, values) => (x.length > values.length ? [...values, values[0]] : values);

  function rate() {
    const { time } = trace();
    if (!time) return null;
    const bytes = menu("rate-of") === 1;
    const scale = bytes ? time.interval_s * MIB : time.interval_s;
    const unit = bytes ? "MiB/s" : "requests/s";
    const { x, axis: xaxis } = overTime(time);
    const of = (key) =>
      padded(
        x,
        time.intervals.map((interval) => interval.total[key] / scale),
      );
    const rest = { hovertemplate: "%{y:,.1f} " + unit };
    return {
      note: "Intervals of " + spell(time.interval_s),
      traces: [
        steps(READS, "Reads", x, of(bytes ? "read_bytes" : "reads"), rest),
        steps(WRITES, "Writes", x, of(bytes ? "written_bytes" : "writes"), rest),
      ],
      layout: {
        xaxis,
        yaxis: axis(bytes ? "Rate (MiB/s)" : "Rate (requests/s)", {
          rangemode: "tozero",
          tickformat: ",",
        }),
        hovermode: "x unified",
      },
    };
  }

  function working() {
    const { time, page_bytes } = trace();
    if (!time) return null;
    const { x, axis: xaxis } = overTime(time);
    const mib = (get) =>
      padded(
        x,
        time.intervals.map((interval) => (get(interval) * page_bytes) / MIB),
      );
    const rest = { hovertemplate: "%{y:,.2f} MiB" };
    const dash = { ...rest, line: { color: css("--muted"), dash: "dash" } };
    return {
      note: "Intervals of " + spell(time.interval_s),
      traces: [
        steps(READS, "Read", x, mib((i) => i.pages.read), rest),
        steps(WRITES, "Written", x, mib((i) => i.pages.written), rest),
        steps(ALL, "Accessed", x, mib((i) => i.pages.all), rest),
        steps(ALL, "Footprint", x, mib((i) => i.footprint_pages), dash),
      ],
      layout: {
        xaxis,
        yaxis: axis("Distinct pages (MiB)", { rangemode: "tozero", tickformat: "," }),
        hovermode: "x unified",
      },
    };
  }

  // A log axis of sizes, marked at every fourth power of two or so.
  function sizeAxis(title, least, most, box) {
    const room = Math.max(3, Math.floor(box.clientWidth / 75));
    const octaves = Math.max(1, Math.log2(most / least));
    const step = Math.ceil(octaves / room);
    const ticks = [];
    for (let at = least; at <= most * 1.01; at *= 2 ** step) ticks.push(at);
    return axis(title, { type: "log", tickvals: ticks, ticktext: ticks.map(size) });
  }

  const kinds = () => [
    [READS, "Reads", trace().read_reuse],
    [WRITES, "Writes", trace().write_reuse],
  ];

  function misses(box) {
    const page = trace().page_bytes;
    const used = kinds().filter(([, , reuse]) => reuse.caches.length);
    if (!used.length) return null;
    const most = Math.max(...used.map(([, , reuse]) => reuse.caches[reuse.caches.length - 1].pages));
    const drawn = used.map(([i, name, reuse]) => {
      const x = reuse.caches.map((cache) => cache.pages * page);
      const rest = {
        mode: "lines",
        customdata: x.map(size),
        hovertemplate: "%{customdata}: %{y:.2f} % missed",
      };
      return line(
        i,
        name,
        x,
        reuse.caches.map((cache) => 100 * cache.miss_ratio),
        rest,
      );
    });
    return {
      traces: drawn,
      layout: {
        xaxis: sizeAxis("Cache size", page, most * page, box),
        yaxis: axis("Miss ratio (%)", { range: [0, 102] }),
        hovermode: "closest",
      },
    };
  }

  // Reuse distances by powers of four, and first touches last.
  function reuse(box) {
    const page = trace().page_bytes;
    const used = kinds().filter(([, , reuse]) => reuse.caches.length);
    if (!used.length) return null;
    const most = Math.max(...used.map(([, , reuse]) => reuse.caches[reuse.caches.length - 1].pages));
    const ends = [];
    for (let pages = 1; pages < 4 * most; pages *= 4) ends.push(pages);
    const text = [...ends.map((pages) => size(pages * page)), "first touch"];
    const drawn = used.map(([i, name, reuse]) => {
      const shares = ends.map((end, at) => {
        const from = at ? ends[at - 1] : 0;
        const inside = reuse.caches.filter((c) => c.pages > from && c.pages <= end);
        return percent(
          inside.reduce((sum, cache) => sum + cache.reuses, 0),
          reuse.accesses,
        );
      });
      const rest = { customdata: text, hovertemplate: "%{customdata}: %{y:.2f} %" };
      const y = [...shares, percent(reuse.first_touches, reuse.accesses)];
      return bar(
        i,
        name,
        text.map((_, at) => at),
        y,
        rest,
      );
    });
    return bars(box, drawn, text, "Share of page accesses (%)", "Reuse distance, below");
  }

  function bars(box, drawn, text, title, xtitle) {
    const every = Math.ceil(text.length / Math.max(3, Math.floor(box.clientWidth / 70)));
    // The last name stays: it may be another than a size.
    const keep = (at) => (text.length - 1 - at) % every === 0;
    const places = text.map((_, at) => at).filter(keep);
    return {
      traces: drawn,
      layout: {
        xaxis: axis(xtitle, {
          tickvals: places,
          ticktext: places.map((at) => plain(text[at]).replace(" ", "<br>")),
          range: [-0.6, text.length - 0.4],
        }),
        yaxis: axis(title, { rangemode: "tozero" }),
        barmode: "group",
        hovermode: "closest",
      },
    };
  }

  function sizes(box) {
    const { classes } = trace().sizes;
    const { total } = trace();
    const text = classes.map((entry) => size(entry.to_bytes));
    const of = (i, name, key) => {
      const rest = {
        customdata: classes.map((entry, at) => text[at] + ": " + entry[key].toLocaleString("en")),
        hovertemplate: "%{customdata} requests, %{y:.2f} %",
      };
      const y = classes.map((entry) => percent(entry[key], total[key]));
      return bar(
        i,
        name,
        classes.map((_, at) => at),
        y,
        rest,
      );
    };
    const drawn = [];
    if (total.reads) drawn.push(of(READS, "Reads", "reads"));
    if (total.writes) drawn.push(of(WRITES, "Writes", "writes"));
    return bars(box, drawn, text, "Share of requests (%)", "Size, up to");
  }

  function hours() {
    const { time } = trace();
    if (!time) return null;
    const keys = menu("hours-of") === 1 ? ["read_bytes", "written_bytes"] : ["reads", "writes"];
    const x = time.hours.map((entry) => entry.hour);
    const of = (i, name) => {
      const y = time.hours.map((entry) =>
        percent(entry.total[keys[i]], entry.total[keys[0]] + entry.total[keys[1]]),
      );
      const drawn = bar(i, name, x, y, { hovertemplate: "hour %{x}: %{y:.1f} %" });
      // Many narrow bars have no room for a pattern.
      if (x.length > 48) drawn.marker = { color: color(i) };
      return drawn;
    };
    const ticks = x[x.length - 1] < 12 ? { dtick: 1 } : {};
    return {
      traces: [of(READS, "Reads"), of(WRITES, "Writes")],
      layout: {
        xaxis: axis("Hour", { tickformat: ",", ...ticks }),
        yaxis: axis("Share (%)", { range: [0, 100] }),
        barmode: "stack",
        bargap: x.length > 48 ? 0 : 0.15,
        hovermode: "closest",
      },
    };
  }

  function hottest() {
    const { heat } = trace();
    const lists = [
      [READS, "Reads", heat.reads],
      [WRITES, "Writes", heat.writes],
      [ALL, "All", heat.all],
    ].filter(([, , list]) => list.length);
    if (!lists.length) return null;
    const drawn = lists.map(([i, name, list]) => {
      const rest = { hovertemplate: "%{x} % of the pages: %{y:.2f} % of accesses" };
      return line(
        i,
        name,
        list.map((entry) => entry.pages_percent),
        list.map((entry) => 100 * entry.share),
        rest,
      );
    });
    const ticks = [0.1, 1, 10, 100];
    return {
      traces: drawn,
      layout: {
        xaxis: axis("Hottest pages (% of pages)", { type: "log", tickvals: ticks, ticktext: ticks }),
        yaxis: axis("Share of page accesses (%)", { range: [0, 102] }),
        hovermode: "closest",
      },
    };
  }

  function places() {
    const { heat, page_bytes } = trace();
    const device = heat.devices[menu("device")];
    if (!device || !device.parts.length) return null;
    const part = device.part_pages * page_bytes;
    const end = part * device.parts.length;
    const unit = Math.min(UNITS.length - 1, Math.floor(Math.log2(end) / 10));
    const x = device.parts.map((_, i) => ((i + 0.5) * part) / 1024 ** unit);
    const of = (i, name, key) =>
      bar(
        i,
        name,
        x,
        device.parts.map((p) => p[key]),
        {
          marker: { color: color(i) },
          customdata: device.parts.map((_, at) => size(at * part)),
          hovertemplate: "from %{customdata}: %{y:,} accesses",
        },
      );
    return {
      note: "Parts of " + size(part),
      traces: [of(READS, "Reads", "reads"), of(WRITES, "Writes", "writes")],
      layout: {
        xaxis: axis("Address (" + UNITS[unit] + ")", { tickformat: ",", rangemode: "tozero" }),
        yaxis: axis("Page accesses", { rangemode: "tozero", tickformat: ",~s" }),
        barmode: "stack",
        bargap: 0,
        hovermode: "closest",
      },
    };
  }

  const charts = { rate, working, misses, reuse, sizes, hours, hottest, places };

  function drawAll() {
    for (const [id, chart] of Object.entries(charts)) {
      const box = byId(id);
      const figure = byId("fig-" + id);
      figure.hidden = false;
      const found = chart(box);
      figure.hidden = !found;
      if (!found) continue;
      figure.querySelector(".at").textContent = found.note || "";
      Charts.show(box, { key: trace().file, ...found }, true);
    }
  }

  // The devices of the trace that is shown.
  function devices() {
    const list = trace().heat.devices.map((device, i) => new Option(device.device, i));
    byId("device").replaceChildren(...list);
    byId("device").parentElement.hidden = list.length < 2;
  }

  for (const id of ["trace", "rate-of", "hours-of", "device"]) {
    const control = byId(id);
    if (!control) continue;
    control.addEventListener("change", () => {
      if (id === "trace") devices();
      drawAll();
    });
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  devices();
  drawAll();
})();
