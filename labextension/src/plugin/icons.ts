import { LabIcon } from "@jupyterlab/ui-components";

/** A graph whose one node is probed. Grey follows the theme; the probe is the accent colour. */
const GRAPH = `
<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 24 24">
  <g class="jp-icon3" fill="#616161">
    <rect x="8" y="1.5" width="8" height="5" rx="1.2"/>
    <rect x="1.5" y="9.5" width="8" height="5" rx="1.2"/>
    <rect x="8" y="17.5" width="8" height="5" rx="1.2"/>
    <path d="M11.2 6h1.6l-4 4H7.2zM7.2 14h1.6l4 4h-1.6z"/>
    <path d="M13 6h1.6l2.8 3.2-1.2 1zM16.2 13.8l1.2 1-2.8 3.2H13z"/>
  </g>
  <circle class="jp-icon-accent0" cx="18" cy="12" r="4.3" fill="#0f8a6a"/>
  <path d="M15.9 12h1.2l.8-1.7 1 3.2.7-1.5h1" fill="none" stroke="#fff" stroke-width="1" stroke-linejoin="round"/>
</svg>`;

/** A record: a stack of layers. */
const LAYERS = `
<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 24 24">
  <g class="jp-icon3" fill="#616161">
    <path d="M12 2 22 7.2 12 12.4 2 7.2z"/>
    <path d="M4.2 10.6 12 14.7l7.8-4.1L22 11.8 12 17 2 11.8z"/>
    <path d="M4.2 15.2 12 19.3l7.8-4.1 2.2 1.2-10 5.2-10-5.2z"/>
  </g>
</svg>`;

export const modelIcon = new LabIcon({ name: "trt-lab:model", svgstr: GRAPH });
export const recordIcon = new LabIcon({ name: "trt-lab:record", svgstr: LAYERS });
